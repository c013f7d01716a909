"""A router: which handler answers a request."""

from dataclasses import dataclass, field
from typing import Any

from waypost.patterns import Pattern, PatternError
from waypost.urls import build_query


class NotFound(LookupError):
    """No route has this path."""


class MethodNotAllowed(LookupError):
    """Routes have this path, but not with this method; `allowed` names those they have."""

    def __init__(self, method, allowed):
        super().__init__(f"{method} is not allowed; expected {', '.join(allowed)}")
        self.allowed = allowed


@dataclass
class Route:
    """A pattern, its methods and what answers."""

    pattern: Pattern
    methods: tuple
    handler: Any
    name: str
    middleware: list = field(default_factory=list)


class Router:
    """Routes by path and method. `strict` tells `/a` and `/a/` apart."""

    def __init__(self, prefix="", strict=False):
        self.prefix = prefix.rstrip("/")
        self.strict = strict
        self.routes = []
        self._middleware = []

    def add(self, path, handler, methods=("GET",), name=None):
        """Add a route; its name is the handler's, unless one is given."""
        methods = tuple(method.upper() for method in methods)
        name = name or getattr(handler, "__name__", str(handler))
        if any(route.name == name for route in self.routes):
            raise PatternError(f"two routes are named {name!r}")
        route = Route(Pattern(self.prefix + path), methods, handler, name, list(self._middleware))
        self.routes.append(route)
        return route

    def route(self, path, methods=("GET",), name=None):
        """Return a decorator that adds a function as a route."""

        def decorate(function):
            self.add(path, function, methods, name)
            return function

        return decorate

    def use(self, function):
        """Wrap the handlers of all routes that are added from now on; the first wrapper is the outermost."""
        self._middleware.append(function)

    def mount(self, prefix, other):
        """Take in the routes of another router under a prefix; their names get its first part in front."""
        label = prefix.strip("/").split("/")[0]
        for route in other.routes:
            pattern = Pattern(self.prefix + prefix.rstrip("/") + route.pattern.text)
            name = f"{label}.{route.name}" if label else route.name
            self.routes.append(Route(pattern, route.methods, route.handler, name, self._middleware + route.middleware))

    def find(self, path, method="GET"):
        """Return (route, values) for a request; NotFound or MethodNotAllowed where there is none."""
        method = method.upper()
        path = self._trimmed(path)
        allowed = set()
        for route in sorted(self.routes, key=lambda one: one.pattern.rank):
            values = route.pattern.match(path)
            if values is None:
                continue
            if method in route.methods or (method == "HEAD" and "GET" in route.methods):
                return route, values
            allowed.update(route.methods)
        if allowed:
            raise MethodNotAllowed(method, sorted(allowed))
        raise NotFound(f"nothing at {path}")

    def _trimmed(self, path):
        path = path.split("?", 1)[0].split("#", 1)[0]
        if not self.strict and len(path) > 1 and path.endswith("/"):
            exact = any(route.pattern.match(path) is not None for route in self.routes)
            return path if exact else path.rstrip("/") or "/"
        return path

    def dispatch(self, path, method="GET", **extra):
        """Call the handler of a request with the values of its path, through its middleware."""
        route, values = self.find(path, method)
        handler = route.handler
        for wrap in reversed(route.middleware):
            handler = wrap(handler)
        return handler(**{**extra, **values})

    def url(self, name, query=None, **values):
        """Return the address of a named route, with a query where one is given."""
        for route in self.routes:
            if route.name == name:
                path = route.pattern.build(**values)
                if query:
                    path += "?" + build_query(query)
                return path
        raise NotFound(f"no route is named {name!r}")
