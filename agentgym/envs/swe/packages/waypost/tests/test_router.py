import pytest
from waypost import MethodNotAllowed, NotFound, PatternError, Router


@pytest.fixture
def router():
    made = Router()
    made.add("/", "home")
    made.add("/users", "users")
    made.add("/users", "create", methods=["post"])
    made.add("/users/{id:int}", "user")
    made.add("/users/{name}", "named")
    made.add("/users/me", "me")
    return made


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        ("/", "home", {}),
        ("/users", "users", {}),
        ("/users/", "users", {}),
        ("/users/7", "user", {"id": 7}),
        ("/users/ann", "named", {"name": "ann"}),
        ("/users/me", "me", {}),
        ("/users/7?tab=1", "user", {"id": 7}),
        ("/users#top", "users", {}),
    ],
)
def test_find(router, path, name, values):
    route, found = router.find(path)
    assert (route.name, found) == (name, values)


def test_methods(router):
    assert router.find("/users", "POST")[0].name == "create"
    assert router.find("/users", "post")[0].name == "create"


def test_head_is_a_kind_of_get(router):
    assert router.find("/users", "HEAD")[0].name == "users"


def test_not_found(router):
    with pytest.raises(NotFound, match="nothing at /nowhere"):
        router.find("/nowhere")


def test_method_not_allowed(router):
    with pytest.raises(MethodNotAllowed) as error:
        router.find("/users", "DELETE")
    assert error.value.allowed == ["GET", "POST"]


def test_strict_routers_tell_slashes_apart():
    router = Router(strict=True)
    router.add("/a", "a")
    with pytest.raises(NotFound):
        router.find("/a/")


def test_a_pattern_with_a_slash_at_its_end():
    router = Router()
    router.add("/a/", "a")
    assert router.find("/a/")[0].name == "a"


def test_decorator_and_dispatch():
    router = Router()

    @router.route("/add/{a:int}/{b:int}")
    def add(a, b, scale=1):
        return (a + b) * scale

    assert router.dispatch("/add/2/3") == 5
    assert router.dispatch("/add/2/3", scale=10) == 50
    assert router.routes[0].name == "add"


def test_values_of_the_path_go_before_others():
    router = Router()
    router.add("/{a:int}", lambda a: a, name="same")
    assert router.dispatch("/4", a=9) == 4


def test_middleware_goes_from_the_outside_in():
    router = Router()
    seen = []

    def wrapper(label):
        def wrap(handler):
            def call(**values):
                seen.append(label)
                return handler(**values)

            return call

        return wrap

    router.add("/early", lambda: "early", name="early")
    router.use(wrapper("outer"))
    router.use(wrapper("inner"))
    router.add("/late", lambda: "late", name="late")
    assert router.dispatch("/early") == "early"
    assert seen == []
    assert router.dispatch("/late") == "late"
    assert seen == ["outer", "inner"]


def test_prefix():
    router = Router("/api/")
    router.add("/users", "users")
    assert router.find("/api/users")[0].name == "users"
    with pytest.raises(NotFound):
        router.find("/users")


def test_mount():
    inner, outer = Router(), Router("/api")
    inner.add("/{id:int}", "show")
    outer.mount("/posts/", inner)
    route, values = outer.find("/api/posts/5")
    assert (route.name, values) == ("posts.show", {"id": 5})
    assert outer.url("posts.show", id=5) == "/api/posts/5"


def test_names_are_unique(router):
    with pytest.raises(PatternError, match="two routes are named 'users'"):
        router.add("/people", "users")


def test_url(router):
    assert router.url("user", id=3) == "/users/3"
    assert router.url("users", query={"page": 2, "tag": ["a", "b c"]}) == "/users?page=2&tag=a&tag=b+c"
    with pytest.raises(NotFound, match="no route is named"):
        router.url("nobody")
