// What is known of a page: read and looked up by one script in an isolated context of its own, which the page cannot reach.
// The expression is a function; it returns an object with observe, locate, fill, select, focus, quiet, box.
() => {
  let options = { every: false };
  const ids = new WeakMap();
  const byId = [null];
  const MOST_LINES = 4000;
  const MOST_NODES = 60000;
  const MOST_TEXT = 2000;  // characters of one line
  let mutations = 0;

  const TAGS = {
    A: (e) => (e.hasAttribute("href") ? "link" : ""), BUTTON: "button", TEXTAREA: "textbox", NAV: "navigation", MAIN: "main",
    SELECT: (e) => (e.multiple || e.size > 1 ? "listbox" : "combobox"), OPTION: "option", IMG: "img", TABLE: "table",
    TR: "row", TD: "cell", TH: "columnheader", UL: "list", OL: "list", LI: "listitem", FORM: "form", DIALOG: "dialog",
    H1: "heading", H2: "heading", H3: "heading", H4: "heading", H5: "heading", H6: "heading", ASIDE: "complementary",
    HEADER: "banner", FOOTER: "contentinfo", ARTICLE: "article", SECTION: (e) => (label(e) ? "region" : ""), P: "paragraph",
    FIELDSET: "group", SUMMARY: "button", DETAILS: "group", PROGRESS: "progressbar", METER: "meter", HR: "separator",
    OUTPUT: "status", IFRAME: "iframe", VIDEO: "video", AUDIO: "audio", CANVAS: "canvas", BLOCKQUOTE: "blockquote",
    DT: "term", DD: "definition", PRE: "code",
  };
  const INPUTS = {
    button: "button", submit: "button", reset: "button", image: "button", file: "file", checkbox: "checkbox", radio: "radio",
    range: "slider", number: "spinbutton", search: "searchbox", hidden: "",
  };
  const ACTIVE = new Set(["link", "button", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider",
    "spinbutton", "switch", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "option", "treeitem", "file", "gridcell"]);
  const FROM_CONTENT = new Set(["link", "button", "heading", "option", "tab", "menuitem", "menuitemcheckbox", "menuitemradio",
    "treeitem", "switch", "cell", "gridcell", "columnheader", "rowheader", "listitem", "paragraph", "term", "definition",
    "row", "status", "alert", "blockquote", "code", "checkbox", "radio", "tooltip", "caption", "note", "label"]);
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK", "TITLE", "OPTGROUP", "DATALIST"]);
  const SHAPES = new Set(["circle", "rect", "polygon", "line", "path", "text", "ellipse", "polyline"]);
  const SHAPE_FACTS = ["fill", "stroke", "cx", "cy", "r", "x", "y", "width", "height", "points", "x1", "y1", "x2", "y2", "d",
    "font-size", "transform"];

  const squeeze = (text) => text.replace(/[\s\u0000-\u001f\u007f]+/g, " ").trim();
  const quote = (text) => JSON.stringify(text.length > MOST_TEXT ? text.slice(0, MOST_TEXT) + "…" : text);
  const role = (e) => {
    const given = (e.getAttribute("role") || "").trim().split(/\s+/)[0];
    if (given && given !== "presentation" && given !== "none") return given;
    if (e.tagName === "INPUT") return e.type in INPUTS ? INPUTS[e.type] : e.list ? "combobox" : "textbox";
    const found = TAGS[e.tagName];
    return (typeof found === "function" ? found(e) : found) || (e.isContentEditable && !e.parentElement?.isContentEditable ? "textbox" : "");
  };
  const label = (e) => {
    const by = e.getAttribute("aria-labelledby");
    if (by) {
      const text = by.split(/\s+/).map((id) => e.getRootNode().getElementById?.(id)?.textContent || "").join(" ");
      if (squeeze(text)) return squeeze(text);
    }
    const given = squeeze(e.getAttribute("aria-label") || "");
    if (given) return given;
    if (e.labels?.length) {
      const text = [...e.labels].map((one) => (one.contains(e) ? [...one.childNodes].filter((n) => n !== e && !n.matches?.("select, textarea")).map((n) => n.textContent).join(" ") : one.textContent)).join(" ");
      if (squeeze(text)) return squeeze(text);
    }
    if (e.tagName === "INPUT" && ["button", "submit", "reset"].includes(e.type))
      return squeeze(e.value) || { submit: "Submit", reset: "Reset" }[e.type] || "";
    return squeeze(e.getAttribute("alt") || "") || squeeze(e.getAttribute("title") || "") || squeeze(e.getAttribute("placeholder") || "");
  };
  const identity = (e) => {
    let id = ids.get(e);
    if (!id) {
      id = byId.push(new WeakRef(e)) - 1;
      ids.set(e, id);
    }
    return id;
  };
  const disabled = (e) => e.matches?.(":disabled") || e.closest?.("[aria-disabled=true]") != null || e.closest?.("[inert]") != null;
  const shown = (e) => e.checkVisibility({ visibilityProperty: true });
  const value = (e) => (e.type === "password" ? "•".repeat(e.value.length) : e.value);
  const chosen = (e) => [...e.selectedOptions].map((o) => squeeze(o.label || o.text)).join(", ");

  const facts = (e, kind) => {
    const found = [];
    if (e.tagName === "SELECT") {
      const names = [...e.options].map((o) => squeeze(o.label || o.text));
      const most = 50;
      found.push(`value=${e.multiple ? JSON.stringify([...e.selectedOptions].map((o) => squeeze(o.label || o.text)).slice(0, 50)) : quote(chosen(e))}`);
      found.push(`options=${JSON.stringify(names.slice(0, most))}` + (names.length > most ? ` and ${names.length - most} more` : ""));
    } else if (["checkbox", "radio"].includes(e.type) && e.tagName === "INPUT") {
      if (e.checked) found.push("checked");
    } else if (kind === "file") {
      found.push("files cannot be chosen here");
    } else if ((e.tagName === "INPUT" && !["button", "submit", "reset", "image"].includes(e.type)) || e.tagName === "TEXTAREA") {
      if (e.value !== "") found.push(`value=${quote(value(e))}`);
      if (e.placeholder && e.placeholder !== label(e)) found.push(`placeholder=${quote(squeeze(e.placeholder))}`);
      if (e.readOnly) found.push("readonly");
      if (!["text", "password", "search", "textarea", "number", "range"].includes(e.type)) found.push(`type=${e.type}`);
      if (["range", "number"].includes(e.type)) for (const one of ["min", "max", "step"]) if (e[one]) found.push(`${one}=${e[one]}`);
    } else if (e.isContentEditable && kind === "textbox") {
      found.push(`value=${quote(e.innerText.trim())}`);
    }
    if (e.tagName === "PROGRESS" || e.tagName === "METER") found.push(`value=${e.value}`);
    if (/^H[1-6]$/.test(e.tagName)) found.push(`level=${e.tagName[1]}`);
    for (const one of ["checked", "expanded", "selected", "pressed", "current"]) {
      const state = e.getAttribute("aria-" + one);
      if (state && state !== "false") found.push(state === "true" ? one : `${one}=${squeeze(state)}`);
      else if (state && one === "expanded") found.push("collapsed");
    }
    for (const one of ["valuenow", "valuetext", "level", "sort"]) {
      const state = e.getAttribute("aria-" + one);
      if (state && state !== "none") found.push(`${one}=${squeeze(state).slice(0, 80)}`);
    }
    if (e.tagName === "DETAILS") found.push(e.open ? "expanded" : "collapsed");
    if (e.tagName === "TEXTAREA") found.push("multiline");
    if (e.required) found.push("required");
    if (e.getAttribute("aria-invalid") === "true") found.push("invalid");
    if (disabled(e) && (ACTIVE.has(kind) || e.disabled)) found.push("disabled");
    if (active(e)) found.push("focused");
    return found;
  };
  const active = (e) => e.getRootNode().activeElement === e && e !== e.ownerDocument.body;

  // A part is {text: true, s, glue, y} or {d: depth, s, y, e: the element if it gets an id}. `glue` says whether a text follows what is before it without a break.
  const observe = (given) => {
    options = given;
    let nodes = 0;
    let lines = 0;
    const clickable = (e, style, above) =>
      e.onclick || e.hasAttribute("onclick") || e.draggable && e.hasAttribute("draggable") ||
      (e.hasAttribute("tabindex") && e.tabIndex >= 0 && e.tagName !== "IFRAME") || (style.cursor === "pointer" && above !== "pointer");
    const join = (parts) => {
      let text = "";
      for (const part of parts) text += (part.glue ? "" : " ") + part.s;
      return squeeze(text);
    };
    const settle = (parts) => {  // neighbouring texts become one
      const found = [];
      for (const part of parts) {
        const last = found[found.length - 1];
        if (part.text && last?.text && part.glue) last.s += part.s;
        else if (!part.text || squeeze(part.s)) found.push(part.text ? { ...part } : part);
        else if (last?.text) last.s += " ";
      }
      return found;
    };
    const children = (e, above, top) => {
      let found = [];
      const list = e.shadowRoot ? e.shadowRoot.childNodes : e.tagName === "SLOT" && e.assignedNodes().length ? e.assignedNodes() : e.childNodes;
      for (const child of list) {
        if (lines > MOST_LINES || ++nodes > MOST_NODES) break;
        if (child.nodeType === 3) {
          if (child.data) found.push({ text: true, s: child.data.slice(0, 20000), glue: true, y: null });
        } else if (child.nodeType === 1) found = found.concat(walk(child, above, top));
      }
      return found;
    };
    const walk = (e, above, top) => {
      if (SKIPPED.has(e.tagName) || e.getAttribute("aria-hidden") === "true") return [];
      const style = e.ownerDocument.defaultView.getComputedStyle(e);
      if (style.display === "none") return [];
      if (e.tagName === "BR") return [{ text: true, s: " ", glue: true, y: null }];
      const hidden = style.visibility !== "visible" || !e.checkVisibility();
      const kind = hidden ? "" : role(e);
      const box = e.getBoundingClientRect();
      const y = Math.round(box.top + top);
      if (e.namespaceURI.endsWith("/svg")) return hidden ? [] : picture(e, style, above, top, y);
      let inside = [];
      if (e.tagName === "LABEL" && e.control && e.control !== e && !hidden && e.control.checkVisibility()) {
        return children(e, style.cursor, top).filter((part) => !part.text);  // its text is the control's name
      }
      if (e.tagName === "IFRAME") {
        let body = null;
        try { body = e.contentDocument?.body; } catch { body = null; }
        inside = body ? walk(body, "", top + box.top).map((part) => (part.text ? { ...part, glue: false } : part)) : [];
      } else if (!["SELECT", "TEXTAREA", "CANVAS", "VIDEO", "AUDIO", "PROGRESS", "METER"].includes(e.tagName) && !(e.isContentEditable && kind === "textbox"))
        inside = children(e, style.cursor, top);
      if (hidden) inside = inside.filter((part) => !part.text || part.kept);
      inside = settle(inside);
      const press = !hidden && (ACTIVE.has(kind) || clickable(e, style, above) || kind === "iframe" || kind === "canvas");
      const block = !style.display.startsWith("inline") && style.display !== "contents";
      const texts = inside.every((part) => part.text);
      const every = options.every && !hidden && texts && (block || e.id || e.className) && box.width > 0 && box.height > 0 &&
        !["HTML", "BODY"].includes(e.tagName) && (inside.length > 0 || options.every);
      if (!kind && !press && !every) {
        for (const part of inside) if (part.text) { part.kept = true; if (part.y === null) part.y = y; }
        if (block && inside.length) {
          if (inside[0].text) inside[0].glue = false;
          inside.push({ text: true, s: " ", glue: false, y });
        }
        return inside;
      }
      let name = label(e);
      const said = texts ? join(inside) : "";
      let rest = inside;
      if (texts && (FROM_CONTENT.has(kind) || !kind)) {
        rest = [];
        if (said && (!name || ["cell", "listitem", "paragraph", "row", ""].includes(kind))) name = said;
      } else if (kind === "label" && texts) rest = [];
      else if (!name && ["link", "button", "tab", "menuitem", "option"].includes(kind)) {
        name = join(inside.filter((part) => part.text));
        rest = inside.filter((part) => !part.text);
      }
      if (["list", "table", "paragraph", "listitem", "cell", "row", "banner", "contentinfo", "complementary", "article", "term", "definition", "group", "rowgroup"].includes(kind) && !press && !rest.length && !name) {
        if (kind !== "cell" || !options.every) return kind === "cell" ? [{ d: 0, s: "cell", y }] : [];
      }
      if (kind === "row" && !press && rest.length && rest.every((part) => !part.e && part.d === 0 && /^(cell|columnheader|rowheader)( "|$)/.test(part.s)) && !options.every) {
        const cells = rest.map((part) => { try { return JSON.parse(part.s.replace(/^\w+ ?/, "") || '""'); } catch { return part.s; } });
        lines -= rest.length - 1;
        return [{ d: 0, s: "row " + cells.map(quote).join(" | "), y }];
      }
      const found = facts(e, kind);
      if (options.every && e.id) found.push(`id=${quote(squeeze(e.id))}`);
      if (options.every && e.className && typeof e.className === "string" && e.className.trim()) found.push(`class=${quote(squeeze(e.className))}`);
      if (options.every && e.style.backgroundColor) found.push(`background=${quote(e.style.backgroundColor)}`);
      if (options.every && (kind === "canvas" || /slider-handle|draggable|resizable-handle/.test(e.className))) found.push(place(box));
      lines += 1;
      const own = (kind || e.tagName.toLowerCase()) + (name ? " " + quote(name) : "") + (found.length ? " " + found.join(" ") : "");
      return [{ d: 0, s: own, y, e: press || every ? e : null }, ...rest.map((part) => part.text ? { d: 1, s: "text " + quote(squeeze(part.s)), y: part.y ?? y } : { ...part, d: part.d + 1 })];
    };
    const place = (box) => `x=${Math.round(box.left)} y=${Math.round(box.top)} width=${Math.round(box.width)} height=${Math.round(box.height)}`;
    const picture = (e, style, above, top, y) => {  // drawings: shapes only where the environment wants them
      const tag = e.tagName.toLowerCase();
      const press = clickable(e, style, above);
      let inside = [];
      if (tag === "svg" || tag === "g") for (const child of e.children) {
        if (lines > MOST_LINES || ++nodes > MOST_NODES) break;
        inside = inside.concat(walk(child, style.cursor, top));
      }
      const shape = SHAPES.has(tag) && (options.every || press || tag === "text");
      if (!shape && !press && !(tag === "svg" && (options.every || label(e)))) return inside;
      const found = [];
      if (options.every && SHAPES.has(tag)) for (const one of SHAPE_FACTS) {
        const given = e.getAttribute(one) || ((one === "fill" || one === "stroke") && style[one] !== "none" ? style[one] : "");
        if (given) found.push(`${one}=${/[\s"]/.test(given) ? quote(squeeze(given).slice(0, 200)) : given.slice(0, 200)}`);
      }
      if (options.every && tag === "svg") found.push(place(e.getBoundingClientRect()));
      const text = tag === "text" ? squeeze(e.textContent) : label(e);
      lines += 1;
      return [{ d: 0, e: options.every || press ? e : null, s: tag + (text ? " " + quote(text) : "") + (found.length ? " " + found.join(" ") : ""), y }, ...inside.map((part) => (part.text ? part : { ...part, d: part.d + 1 }))];
    };
    const all = document.body ? settle(walk(document.body, "", 0)) : [];
    const parts = all.map((part) => (part.text ? [0, "text " + quote(squeeze(part.s)), part.y ?? 0] : [part.d, (part.e ? `[${identity(part.e)}] ` : "") + part.s, part.y]));
    const root = document.scrollingElement || document.documentElement;
    return {
      title: squeeze(document.title).slice(0, 200), url: document.URL, lines: parts.slice(0, MOST_LINES),
      more: Math.max(0, parts.length - MOST_LINES) + (nodes > MOST_NODES || lines > MOST_LINES ? 1 : 0), focus: focus(),
      scroll: [Math.round(root?.scrollTop || 0), innerHeight, root?.scrollHeight || 0], next: byId.length,
    };
  };

  const focused = () => {
    let e = document.activeElement;
    for (let depth = 0; e && depth < 20; depth++) {
      let inner = null;
      try { inner = e.shadowRoot?.activeElement || e.contentDocument?.activeElement; } catch { inner = null; }
      if (!inner || inner === inner.ownerDocument.body) break;
      e = inner;
    }
    return e && e !== document.body ? e : null;
  };
  const told = (e) => {
    const kind = role(e) || e.tagName.toLowerCase();
    const name = label(e) || squeeze(e.innerText || "").slice(0, 60);
    return (ids.has(e) ? `[${ids.get(e)}] ` : "") + kind + (name ? " " + quote(name) : "");
  };
  const focus = () => (focused() ? told(focused()) : null);

  const element = (id) => {
    const e = byId[id]?.deref?.();
    if (!(id in byId) || id < 1) throw `there is no element ${id} on this page`;
    if (!e || !e.isConnected) throw `element ${id} is gone: the page has changed`;
    return e;
  };
  const visible = (id) => {
    const e = element(id);
    if (!shown(e)) throw `element ${told(e)} is hidden`;
    return e;
  };
  const usable = (id) => {
    const e = visible(id);
    if (disabled(e)) throw `element ${told(e)} is disabled`;
    return e;
  };
  const offset = (e) => {  // of the element's frame in the window
    let [x, y] = [0, 0];
    for (let view = e.ownerDocument.defaultView; view && view !== window; view = view.parent) {
      const frame = view.frameElement;
      if (!frame) break;
      const box = frame.getBoundingClientRect();
      x += box.left + frame.clientLeft;
      y += box.top + frame.clientTop;
    }
    return [x, y];
  };
  const reaches = (e, x, y) => {
    let hit = e.ownerDocument.elementFromPoint(x, y);
    while (hit?.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    for (let one = hit; one; one = one.parentNode || one.host) if (one === e) return true;
    return hit && (e.contains(hit) || [...(e.labels || [])].some((l) => l.contains(hit))) ? true : hit;
  };
  const locate = (id, free) => {  // the point at which to click
    const e = usable(id);
    if (!e.ownerDocument.defaultView) throw `element ${id} is gone: the page has changed`;
    const far = () => {
      const box = e.getBoundingClientRect();
      const view = e.ownerDocument.defaultView;
      return box.top < 0 || box.left < 0 || box.bottom > view.innerHeight || box.right > view.innerWidth;
    };
    if (far()) e.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
    const point = aim(e, free);
    if (point.x !== undefined) return point;
    e.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });  // it may be cut off by what scrolls around it
    const again = aim(e, free);
    if (again.x !== undefined) return again;
    throw `element ${told(e)} is covered` + (again.hit ? ` by ${told(again.hit)}` : "");
  };
  const aim = (e, free) => {  // a point where a click meets the element, or what is met instead
    const boxes = [...e.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
    if (!boxes.length) throw `element ${told(e)} has no size: it cannot be clicked`;
    const [left, top] = offset(e);
    const view = e.ownerDocument.defaultView;
    let covered = null;
    for (const box of boxes.slice(0, 4))
      for (const [across, down] of [[0.5, 0.5], [0.2, 0.5], [0.8, 0.5], [0.5, 0.2], [0.5, 0.8], [0.1, 0.1]]) {
        const x = Math.min(Math.max(box.left + box.width * across, 0), view.innerWidth - 1);
        const y = Math.min(Math.max(box.top + box.height * down, 0), view.innerHeight - 1);
        const hit = reaches(e, x, y);
        if (hit === true || free) return { x: x + left, y: y + top };
        covered = covered || hit;
      }
    return { hit: covered };
  };
  const changed = (e) => {
    e.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    e.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const fill = (id, text) => {  // true: the text is to be typed into what is now focused and selected
    const e = usable(id);
    const typed = ["text", "search", "email", "url", "tel", "password", "number", "textarea"];
    if (e.readOnly) throw `element ${told(e)} is read-only`;
    if (e.tagName === "SELECT") throw `element ${told(e)} is a list: use select`;
    if (e.isContentEditable) {
      e.focus();
      e.ownerDocument.defaultView.getSelection().selectAllChildren(e);
      return true;
    }
    if (e.tagName !== "TEXTAREA" && e.tagName !== "INPUT" || ["checkbox", "radio", "button", "submit", "reset", "image", "file"].includes(e.type))
      throw `element ${told(e)} takes no text`;
    if (e.type === "number" && text.trim() !== "" && !Number.isFinite(Number(text))) throw `element ${told(e)} takes a number, not ${quote(text)}`;
    if (typed.includes(e.type)) {
      e.focus();
      e.select();
      return true;
    }
    const before = e.value;
    e.focus();
    e.value = text.trim();
    if (e.value !== text.trim() && !(e.type === "color" && e.value === text.trim().toLowerCase())) {
      const like = { date: "2026-03-31", time: "14:05", month: "2026-03", week: "2026-W14", "datetime-local": "2026-03-31T14:05", color: "#ff0000", range: "a number in its range" }[e.type];
      if (!(e.type === "range" && Number.isFinite(Number(text)))) {
        e.value = before;
        throw `element ${told(e)} takes a ${e.type}${like ? " such as " + like : ""}, not ${quote(text)}`;
      }
    }
    changed(e);
    return false;
  };
  const select = (id, option) => {
    let e = usable(id);
    if (e.tagName === "OPTION") e = e.closest("select");
    if (e?.tagName !== "SELECT") throw `element ${told(element(id))} is no list of options: click it`;
    const wanted = squeeze(option);
    const list = [...e.options];
    const match = list.find((o) => squeeze(o.label || o.text) === wanted) || list.find((o) => o.value === option) ||
      list.find((o) => squeeze(o.label || o.text).toLowerCase() === wanted.toLowerCase());
    const names = list.map((o) => squeeze(o.label || o.text));
    if (!match) throw `there is no option ${quote(wanted)} in ${told(e)}; options: ${JSON.stringify(names.slice(0, 50))}` + (names.length > 50 ? ` and ${names.length - 50} more` : "");
    if (match.disabled) throw `the option ${quote(wanted)} is disabled`;
    e.focus();
    if (e.multiple) match.selected = !match.selected;
    else match.selected = true;
    changed(e);
  };
  const scroll = (x, y, id) => {  // pages of the window, or of an element
    let e = id ? visible(id) : document.scrollingElement || document.documentElement;
    for (; id && e && !(e.scrollHeight > e.clientHeight + 1 && y || e.scrollWidth > e.clientWidth + 1 && x); e = e.parentElement);
    if (!e) throw `element ${id} does not scroll`;
    const before = [e.scrollLeft, e.scrollTop];
    e.scrollBy({ left: x * e.clientWidth * 0.8, top: y * (e === document.documentElement ? innerHeight : e.clientHeight) * 0.8, behavior: "instant" });
    return e.scrollLeft !== before[0] || e.scrollTop !== before[1];
  };
  const watch = (target) => new MutationObserver((records) => { mutations += records.length; }).observe(target, { subtree: true, childList: true, attributes: true, characterData: true });
  watch(document);
  const quiet = () => new Promise((done) => {  // until a frame was drawn in which nothing changed, or for at most a few frames
    let frames = 0;
    const look = () => { if (mutations && ++frames < 12) wait(); else done(frames); };
    const wait = () => {
      mutations = 0;
      let over = false;
      const end = () => { if (!over) { over = true; look(); } };
      requestAnimationFrame(() => setTimeout(end, 0));
      setTimeout(end, 50);
    };
    wait();
  });
  return { observe, locate, fill, select, scroll, quiet, focus };
}
