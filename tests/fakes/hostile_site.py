# ruff: noqa: E501
"""A site of pages that mean no good, and some that mean no harm."""

from agentgym.browser import BrowserEnv, mount
from agentgym.core.env import Task

PAGES = {
    "/": """<title>Home</title><h1>Hello</h1><p>Some text <a href=/form>Form</a></p>
        <button id=loop onclick="while(true);">loop</button>
        <button onclick="for(let i=0;i<200000;i++)document.body.append(document.createElement('div'),'flood ')">flood</button>
        <button onclick="for(let i=0;i<50000;i++)console.log('flood '.repeat(20),i)">console</button>
        <button onclick="alert('Careful');if(confirm('Sure?'))document.title='sure '+prompt('Name?','Ann')">dialogs</button>
        <button onclick="for(let i=0;i<300;i++)window.open('/form?'+i)">popups</button>
        <button onclick="for(;;)alert('again')">alerts</button>
        <button onclick="setTimeout(()=>document.title='later '+Date.now(),500)">later</button>
        <button onclick="fetch('http://127.0.0.1:9/x').catch(e=>fetch('https://example.org/')).catch(e=>document.title='no way out')">out</button>
        <button onclick="try{new WebSocket('ws://shop.test/').onerror=()=>document.title='no socket'}catch(e){document.title='no socket'}">socket</button>
        <button onclick="location='/file'">download</button>
        <button onclick="localStorage.a='x';document.cookie='a=x';sessionStorage.a='x';caches.open('x');indexedDB.open('x')">store</button>
        <button onclick="document.title='seen:'+(localStorage.a||'')+document.cookie+(sessionStorage.a||'')+name">seen</button>
        <button disabled>dead</button><div style="position:fixed;top:0;left:0;width:1px;height:1px"></div>""",
    "/form": """<form action=/done><label>Name <input name=n></label><label>Secret <input type=password name=s></label>
        <select name=c aria-label=Colour><option>Red<option>Blue</select><label><input type=checkbox name=g>Gift</label>
        <textarea aria-label=Note></textarea><button>Send</button></form><p hidden>hidden text</p>
        <div id=host></div><iframe srcdoc="<button onclick=&quot;this.textContent='inner done'&quot;>inner</button>"></iframe>
        <script>host.attachShadow({mode:'open'}).innerHTML='<button>in the shadow</button>'</script>""",
    "/done": "<p>Done</p><script>window.onbeforeunload=()=>'stay'</script><a href=/>Home</a>",
    "/long": "".join(f"<p>line {i} <button>b{i}</button></p>" for i in range(3000)),
    "/redirect": "<script>setTimeout(()=>location='/done',300)</script>wait",
    "/brief": """<h1>Opener</h1><button onclick="window.open('/shut')">itself</button>
        <button onclick="window.open('/shut?later')">later</button><button onclick="window.open('/thanks')">thanks</button>
        <button onclick="let p=window.open('/form');setTimeout(()=>p.close(),300)">opener</button>""",
    "/shut": "<script>if(location.search)setTimeout(close,300);else close()</script>",
    "/thanks": """<button onclick="window.close()">now</button><button onclick="fetch('/done').then(()=>window.close())">asked</button>
        <button onclick="location='/long';window.close()">leaving</button>""",
    "/ajax": "<div id=o>loading</div><script>fetch('/done').then(r=>r.text()).then(t=>setTimeout(()=>o.textContent='loaded',50))</script>",
}


def site(environ, start_response):
    """Answer with a page, and write down what was asked for."""
    environ["agentgym.episode"].append(environ["PATH_INFO"])
    headers = [("Content-Type", "text/html; charset=utf-8")]
    if environ["PATH_INFO"] == "/file":
        headers.append(("Content-Disposition", "attachment; filename=x.bin"))
    body = PAGES.get(environ["PATH_INFO"], "file").encode()
    start_response("200 OK", [*headers, ("Content-Length", str(len(body)))])
    return [body]


mount("hostile.test", site)


class Hostile(BrowserEnv):
    """Pages that mean no good."""

    seconds = 20.0

    def start(self, task):
        return [], "http://hostile.test/"

    def judge(self, answer):
        return answer == "42" if answer is not None else None

    def digest(self):
        return None

    def generate(self, rng, difficulty):
        return Task(instruction=f"Look around. {rng.integers(10**6)}")
