"""Base of all servers: requests and responses, and uvicorn to run an application."""
