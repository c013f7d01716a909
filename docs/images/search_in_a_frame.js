// Browsers refuse workers to pages opened as files. There the script of the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      const load = (address) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          Object.assign(script, { src: address, onload: done, onerror: failed });
          inside.document.documentElement.append(script);
        });
      inside.importScripts = (...addresses) => addresses.reduce((before, one) => before.then(() => load(one)), Promise.resolve());
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this.frame = frame;
      this.ready = load(url);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
