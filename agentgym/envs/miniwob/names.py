"""What is known of each task: whether text is enough for it, its limit, and when it counts as done."""

THRESHOLDS = {
    "bisect-angle": 0.8,
    "circle-center": 0.8,
    "draw-circle": 0.8,
    "draw-line": 0.8,
    "find-midpoint": 0.8,
    "right-angle": 0.8,
    "use-colorwheel": 0.8,
    "use-colorwheel-2": 0.8,
}
"""Raw reward from which a task with a reward by degrees counts as solved; everywhere else it is 1."""

LIMITS = {
    "book-flight": 30,
    "book-flight-nodelay": 30,
    "choose-date": 20,
    "choose-date-nodelay": 20,
    "click-checkboxes-large": 20,
    "flight.AA": 30,
    "flight.Alaska": 30,
    "flight.Alaska-auto": 30,
    "form-sequence": 30,
    "generate-number": 30,
    "guess-number": 25,
    "social-media-all": 20,
    "social-media-some": 20,
}
"""Steps of an episode where ten, BrowserGym's limit, are few."""


NAMES = tuple(
    """
    ascending-numbers bisect-angle book-flight book-flight-nodelay buy-ticket choose-date choose-date-easy
    choose-date-medium choose-date-nodelay choose-list circle-center click-button click-button-sequence
    click-checkboxes click-checkboxes-large click-checkboxes-soft click-checkboxes-transfer click-collapsible
    click-collapsible-2 click-collapsible-2-nodelay click-collapsible-nodelay click-color click-dialog
    click-dialog-2 click-link click-menu click-menu-2 click-option click-pie click-pie-nodelay click-scroll-list
    click-shades click-shape click-tab click-tab-2 click-tab-2-easy click-tab-2-hard click-tab-2-medium click-test
    click-test-2 click-test-transfer click-widget copy-paste copy-paste-2 count-shape count-sides daily-calendar
    drag-box drag-circle drag-cube drag-items drag-items-grid drag-shapes drag-shapes-2 drag-single-shape
    drag-sort-numbers draw-circle draw-line email-inbox email-inbox-delete email-inbox-forward
    email-inbox-forward-nl email-inbox-forward-nl-turk email-inbox-important email-inbox-nl-turk
    email-inbox-noscroll email-inbox-reply email-inbox-star-reply enter-date enter-password enter-text
    enter-text-2 enter-text-dynamic enter-time find-greatest find-midpoint find-word flight.AA flight.Alaska
    flight.Alaska-auto focus-text focus-text-2 form-sequence form-sequence-2 form-sequence-3 generate-number
    grid-coordinate guess-number highlight-text highlight-text-2 hot-cold identify-shape login-user
    login-user-popup multi-layouts multi-orderings navigate-tree number-checkboxes odd-or-even order-food
    phone-book read-table read-table-2 resize-textarea right-angle scroll-text scroll-text-2 search-engine
    sign-agreement simple-algebra simple-arithmetic social-media social-media-all social-media-some stock-market
    terminal text-editor text-transform tic-tac-toe unicode-test use-autocomplete use-autocomplete-nodelay
    use-colorwheel use-colorwheel-2 use-slider use-slider-2 use-spinner visual-addition
    """.split()
)
"""All tasks that the package registers, by its names without version."""
