"""What our servers share: requests and answers, and uvicorn around an application."""
