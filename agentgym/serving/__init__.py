"""What all servers share: requests and responses, and uvicorn around an application."""
