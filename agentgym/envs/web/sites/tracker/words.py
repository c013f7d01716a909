"""The words that a tracker's texts are made of."""

FIRST = (
    "amber", "atlas", "beacon", "cedar", "cobalt", "comet", "delta", "ember", "falcon", "garnet", "harbor", "indigo", "juniper",
    "kestrel", "lantern", "maple", "nimbus", "onyx", "orbit", "pepper", "quartz", "raven", "saffron", "tundra", "umbra", "vertex",
    "willow", "yarrow", "zephyr",
)  # fmt: skip
SECOND = ("api", "app", "billing", "cli", "console", "docs", "gateway", "importer", "mobile", "portal", "sync", "vault", "web", "worker")
PURPOSES = (
    "The service that {} talks to",
    "Tools around {}",
    "Everything customers see of {}",
    "Nightly jobs of {}",
    "The storage layer of {}",
)
PARTS = (
    "Login page", "Search box", "Invoice export", "Password reset", "File upload", "Settings dialog", "Weekly report", "Dark theme",
    "Sign-up form", "Payment step", "Image gallery", "Address book", "Language menu", "Audit log", "Mobile layout", "Backup job",
    "Date picker", "Notification bell", "User avatar", "CSV import", "Health check", "Rate limiter", "Session store", "Tag editor",
    "Help page", "Two-factor prompt", "Price table", "Map view", "Print preview", "Keyboard navigation",
)  # fmt: skip
FAULTS = (
    "crashes", "hangs", "shows the wrong date", "loses the selection", "ignores the time zone", "returns an empty page",
    "is slow", "shows a stale value", "drops the last row", "reports a server error", "forgets the filter", "overlaps the footer",
    "accepts an invalid value", "sends the message twice", "reloads without end",
)  # fmt: skip
WHEN = (
    "after the session expires", "on small screens", "with more than 500 entries", "in the nightly build", "when offline",
    "for read-only users", "after an upgrade", "with a long name", "during a deployment", "in private windows",
    "when the cache is cold", "for new accounts", "on the second visit", "with two tabs open", "behind a proxy",
)  # fmt: skip
LABELS = {
    "bug": "Something does not work",
    "feature": "A wish for something new",
    "documentation": "Texts for users and developers",
    "performance": "Slower than it should be",
    "security": "Affects the safety of data",
    "design": "Look and feel",
    "regression": "Worked in an earlier release",
    "question": "Needs an answer, not code",
    "blocked": "Waits for somebody else",
    "good first issue": "Small and well described",
    "infrastructure": "Build, tests and servers",
    "wontfix": "Will not be worked on",
}
BODIES = (
    "Seen by two customers this week. Steps are in the support ticket.",
    "Happens every time on the staging server, about half of the time elsewhere.",
    "It did not happen before the last release.",
    "The log shows nothing unusual. A screenshot is attached to the ticket.",
    "We should at least show a clear message.",
    "Low urgency, but it comes up in every demo.",
)
COMMENTS = (
    "I can reproduce this.",
    "Not on my machine. Which version is it?",
    "Could be the same cause as last month.",
    "I have a branch that may fix it.",
    "Support asks for a date.",
    "Let us talk about it on Monday.",
    "The customer confirmed the workaround.",
    "Moved the discussion here from chat.",
)
VERBS = ("Raise", "Tune", "Lower", "Adjust", "Correct")
SETTINGS = ("timeout", "retry limit", "page size", "cache size", "batch size", "upload limit", "poll interval", "pool size")
FILES = ("config", "limits", "defaults", "settings", "client", "server", "worker", "session")
FOLDERS = ("core", "app", "lib", "service", "jobs")
