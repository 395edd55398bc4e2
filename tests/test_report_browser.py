"""Reports opened in headless Chromium: sorting, filtering, phones, keyboards, and names that try to be code."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest

import lrgittins as lg

from .boards import simulated

pytest.importorskip("jinja2")
webdriver = pytest.importorskip(
    "selenium.webdriver", reason="selenium, which drives the browser, is not installed (it is in the extra 'test')"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium with chromedriver here (Debian: chromium, chromium-driver)")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1200,900",
)  # fmt: skip
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def board_file(folder):
    """Six tasks; one model is called like a script, one has no finite standard error."""
    scores, votes = simulated(n=1500)
    aliases = {"m03": SCRIPT, "m05": "an-organisation/with-a-very-long-model-name-that-does-not-fit-a-phone-v2.5-instruct"}
    counts = votes.counts
    frame = counts.loc[counts.index.repeat(counts[["wins", "losses", "ties"]].sum(axis=1))]
    outcomes = np.concatenate([[1.0] * w + [0.0] * l + [0.5] * t for w, l, t in counts[["wins", "losses", "ties"]].to_numpy()])
    keep = ~((frame["task"] == "t00") & ((frame["model_a"] == "m06") | (frame["model_b"] == "m06"))).to_numpy()
    renamed = {name: frame[name].replace(aliases).to_numpy()[keep] for name in ("task", "model_a", "model_b")}
    board = lg.infer_gaps(
        lg.Comparisons.from_arrays(renamed["task"], renamed["model_a"], renamed["model_b"], outcomes[keep]),
        lg.PerTaskBradleyTerry(disconnected="allow"),
    ).certify(2, n_draws=500)
    path = folder / "board.html"
    board.to_html(path, title=f"Board {SCRIPT}")
    return path, board


@pytest.fixture
def page(browser, board_file):
    browser.get(board_file[0].as_uri())
    return browser


def script_errors(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def column(browser, table, index):
    """`data-value` of the visible rows, top to bottom."""
    return browser.execute_script(
        "return Array.from(document.querySelectorAll('#' + arguments[0] + ' tbody tr')).filter(r => !r.hidden)"
        ".map(r => r.cells[arguments[1]].dataset.value ?? null)",
        table,
        index,
    )


def header(browser, table, label):
    for button in browser.find_elements("css selector", f"#{table} th button"):
        if button.text.split("\n")[0].strip() == label:
            return button
    raise AssertionError(f"no column {label!r}")


def sorted_as(browser, table):
    return browser.execute_script("return Array.from(document.querySelectorAll('#' + arguments[0] + ' th')).map(h => h.ariaSort)", table)


def test_board_opens_without_a_word_on_the_console(page):
    assert script_errors(page) == [] and page.title == f"Board {SCRIPT}"


def test_sorting_by_a_number_both_ways_with_missing_last(page, board_file):
    page.execute_script("const s = document.getElementById('group'); s.value = ''; s.dispatchEvent(new Event('change'))")
    for order, sign in (("ascending", 1), ("descending", -1)):
        header(page, "board", "score").click()
        values = column(page, "board", 5)
        assert len(values) == len(board_file[1])
        missing = [value is None for value in values]
        known = [sign * float(value) for value in values if value is not None]
        assert sum(missing) == 1 and missing[-1] and known == sorted(known)
        assert sorted_as(page, "board") == ["none"] * 5 + [order] + ["none"] * 2
    header(page, "board", "std. error").click()
    errors = [math.inf if value == "inf" else float(value) for value in column(page, "board", 6)]
    assert errors == sorted(errors) and errors[-1] == math.inf
    assert sorted_as(page, "board")[5] == "none"
    assert "sorted by std. error, ascending" in page.execute_script("return document.getElementById('said').textContent")
    assert script_errors(page) == []


def test_sorting_by_text_and_by_interval(page):
    header(page, "board", "model").click()
    names = column(page, "board", 3)
    assert names == page.execute_script("return arguments[0].slice().sort((a, b) => a.localeCompare(b, undefined, {numeric: true}))", names)
    header(page, "board", "rank interval").click()
    lows = [int(float(value)) for value in column(page, "board", 2)]
    assert lows == sorted(lows)


def test_keyboard_alone_sorts(page):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    page.execute_script("document.querySelector('#board th button').focus()")
    page.switch_to.active_element.send_keys(keys.TAB)
    page.switch_to.active_element.send_keys(keys.ENTER)
    assert sorted_as(page, "board")[1] == "ascending"
    page.switch_to.active_element.send_keys(keys.SPACE)
    assert sorted_as(page, "board")[1] == "descending"


def test_task_filter_shows_one_task_or_all(page, board_file):
    select = pytest.importorskip("selenium.webdriver.support.select").Select(page.find_element("id", "group"))

    def shown():
        return [figure.get_attribute("data-group") for figure in page.find_elements("css selector", "figure") if figure.is_displayed()]

    assert shown() == ["t00"] and set(column(page, "board", 0)) == {"t00"}
    select.select_by_visible_text("t03")
    assert shown() == ["t03"] and set(column(page, "board", 0)) == {"t03"}
    select.select_by_visible_text("all tasks")
    assert len(shown()) == 6 and len(column(page, "board", 0)) == len(board_file[1])
    assert script_errors(page) == []


def test_a_model_called_like_a_script_is_text(page):
    exceptions = pytest.importorskip("selenium.common.exceptions")
    with pytest.raises(exceptions.NoAlertPresentException):
        page.switch_to.alert.text  # noqa: B018
    cells = [cell.text for cell in page.find_elements("css selector", "#board td.name") if cell.is_displayed()]
    assert SCRIPT in cells and page.execute_script("return document.scripts.length") == 2
    assert page.find_element("tag name", "h1").text == f"Board {SCRIPT}"


def test_no_other_script_may_run(page):
    page.execute_script("const s = document.createElement('script'); s.textContent = 'window.injected = 1'; document.body.append(s)")
    assert page.execute_script("return window.injected ?? null") is None
    assert any("Content Security Policy" in entry["message"] for entry in page.get_log("browser"))


def test_fits_a_phone(browser, board_file):
    phone = {"width": 375, "height": 700, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        browser.get(board_file[0].as_uri())
        assert browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]") == [375, 375]
        wide = browser.execute_script("return Array.from(document.querySelectorAll('.scroll')).some(e => e.scrollWidth > e.clientWidth)")
        assert wide  # tables and pictures scroll inside their own boxes
        font = browser.execute_script("return parseFloat(getComputedStyle(document.querySelector('.claim p')).fontSize)")
        assert font >= 14
        # Of one task the name, rank and interval of a model are in sight; of all tasks the task is too.
        ends = "return Array.from(document.querySelector('#board tbody tr').cells).map(e => e.getBoundingClientRect().right)"
        task, rank, interval, model = browser.execute_script(ends)[:4]
        assert task == 0 < rank < interval < model <= 375
        select = pytest.importorskip("selenium.webdriver.support.select").Select(browser.find_element("id", "group"))
        select.select_by_visible_text("all tasks")
        assert 0 < browser.execute_script(ends)[0] < 375
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_save_gives_the_whole_board(page, board_file):
    page.execute_script(
        "window.saved = []; const make = URL.createObjectURL.bind(URL);"
        "URL.createObjectURL = function (blob) { saved.push(blob); return make(blob); };"
        "HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };"
        "document.getElementById('save').click()"
    )
    assert json.loads(page.execute_async_script("saved[0].text().then(arguments[0])")) == board_file[1].to_dict()
    assert page.execute_script("return saved[1]") == "Board_script_alert_1_script_.json"
    assert script_errors(page) == []


def test_print_shows_the_whole_table(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        hidden = page.execute_script("return getComputedStyle(document.querySelector('.tools')).display")
        scroll = page.execute_script("return getComputedStyle(document.querySelector('.scroll')).overflowX")
        assert (hidden, scroll) == ("none", "visible")
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_comparison_page(browser, folder):
    rng = np.random.default_rng(1)
    scores = (rng.random((4, 40)) < np.linspace(0.2, 0.9, 4)[:, None]).astype(float)
    responses = {"one": lg.ResponseMatrix.from_array(scores), SCRIPT: lg.ResponseMatrix.from_array(scores[:, ::2])}
    lg.compare(responses, ["gittins", "ucb-e"], n_runs=3, budget=0.5, progress=False).to_html(folder / "comparison.html")
    browser.get((folder / "comparison.html").as_uri())
    assert script_errors(browser) == [] and browser.execute_script("return document.scripts.length") == 2
    pytest.importorskip("selenium.webdriver.support.select").Select(browser.find_element("id", "group")).select_by_visible_text("every one")
    header(browser, "regret", "at 10 %").click()
    values = [float(value) for value in column(browser, "regret", 4)]
    assert len(values) == 6 and values == sorted(values)
    assert script_errors(browser) == []
