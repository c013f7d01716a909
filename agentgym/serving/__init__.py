"""Base of all servers: requests and responses, and uvicorn around an application."""
