"""Replies of a worker process share the pipe: what is ready together is sent together, and nothing twice."""

import pickle
import threading
from multiprocessing import Pipe

from agentgym.rollout.processes import _Replies


def received(connection, number):
    """Return so many replies as they come, a list for each message."""
    messages = []
    while sum(map(len, messages)) < number:
        assert connection.poll(30)
        messages.append(connection.recv())
    assert not connection.poll()
    return messages


def test_replies_that_come_while_the_pipe_is_taken_are_one_message():
    theirs, ours = Pipe()
    replies = _Replies(theirs)
    with replies._lock:  # somebody sends
        for number in range(3):
            replies.send((0, number), True, number)
        assert not ours.poll()
    replies.send((0, 3), False, "boom")
    (message,) = received(ours, 4)
    expected = [((0, 0), (True, 0)), ((0, 1), (True, 1)), ((0, 2), (True, 2)), ((0, 3), (False, "boom"))]
    assert [(env, pickle.loads(reply)) for env, reply in message] == expected


def test_each_reply_of_many_threads_arrives_once():
    theirs, ours = Pipe()
    replies = _Replies(theirs)

    def answer(env):
        for number in range(50):
            replies.send((0, env), True, number)

    threads = [threading.Thread(target=answer, args=(env,)) for env in range(20)]
    for thread in threads:
        thread.start()
    messages = received(ours, 1000)
    for thread in threads:
        thread.join()
    came = {
        env: [pickle.loads(reply)[1] for message in messages for (_, of), reply in message if of == env] for env in range(20)
    }
    assert came == {env: list(range(50)) for env in range(20)}
