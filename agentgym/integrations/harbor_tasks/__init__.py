"""Export tasks of an environment as Harbor task folders (format 1.4), with the programs that run in their images."""
