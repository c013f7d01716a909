"""Task folders of Harbor (format 1.4) made from tasks of an environment, and the programs that run in their images."""
