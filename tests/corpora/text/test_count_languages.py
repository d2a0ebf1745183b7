"""Counts and rules in the language of a document: its words, its stop words, its ends of sentences."""
# ruff: noqa: RUF001 - marks of other scripts are part of the subject here

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_columns import column

from corpora.judging.steps.language import LanguageSettings, detect, judged_languages
from corpora.judging.steps.rules import REASONS, RepetitionRules, RulesSettings, judge, judge_details, reasons
from corpora.text.counts.languages import count_in, measure_in, parted, stop_words_in, tables, terms_of

EVERY = LanguageSettings(keep=())
ARTICLES = {
    "de": "Die Mühle am unteren Bach wurde im Jahr 1743 gebaut und gehörte lange Zeit dem Kloster auf der anderen Seite "
    "des Tals. Nach dem großen Hochwasser war von ihr nicht viel mehr als das Fundament geblieben. Der neue Besitzer "
    "ließ sie wieder errichten, und seitdem mahlt sie für die Dörfer der Umgebung das Korn, wenn genug Wasser da ist. "
    "Im Sommer kommen Wanderer, die sich das Rad ansehen.",
    "fr": "Le moulin du bas fut construit en 1743 et appartint longtemps au monastère qui se trouve de l'autre côté de "
    "la vallée. Après la grande crue, il n'en restait que les fondations. Le nouveau propriétaire le fit relever, et "
    "depuis il moud le grain des villages voisins quand il y a assez d'eau. En été, des promeneurs viennent voir la "
    "roue et boire un verre dans la cour.",
    "es": "El molino de abajo se construyó en 1743 y perteneció durante mucho tiempo al monasterio que está al otro lado "
    "del valle. Después de la gran crecida no quedaron más que los cimientos. El nuevo dueño lo mandó levantar, y desde "
    "entonces muele el grano de los pueblos vecinos cuando hay bastante agua. En verano vienen caminantes a ver la "
    "rueda y a descansar en el patio.",
    "it": "Il mulino di sotto fu costruito nel 1743 e appartenne a lungo al monastero che si trova dall'altra parte della "
    "valle. Dopo la grande piena non ne rimasero che le fondamenta. Il nuovo proprietario lo fece ricostruire, e da "
    "allora macina il grano dei paesi vicini quando c'è abbastanza acqua. D'estate vengono gli escursionisti a vedere "
    "la ruota e a riposarsi nel cortile.",
    "nl": "De benedenmolen werd in 1743 gebouwd en was lange tijd van het klooster aan de andere kant van het dal. Na de "
    "grote overstroming bleef er niet veel meer over dan de fundering. De nieuwe eigenaar liet hem weer opbouwen, en "
    "sindsdien maalt hij het graan van de dorpen in de buurt als er genoeg water is. In de zomer komen er wandelaars "
    "om het rad te bekijken.",
    "pt": "O moinho de baixo foi construído em 1743 e pertenceu durante muito tempo ao mosteiro que fica do outro lado do "
    "vale. Depois da grande cheia não restaram mais do que os alicerces. O novo dono mandou levantá-lo, e desde então "
    "mói o grão das aldeias vizinhas quando há água que chegue. No verão vêm caminhantes ver a roda e descansar no "
    "pátio da casa.",
    "pl": "Dolny młyn zbudowano w roku 1743 i przez długi czas należał do klasztoru, który stoi po drugiej stronie doliny. "
    "Po wielkiej powodzi nie zostało z niego nic prócz fundamentów. Nowy właściciel kazał go odbudować i od tego czasu "
    "miele ziarno dla okolicznych wsi, gdy jest dość wody. Latem przychodzą wędrowcy, żeby obejrzeć koło i odpocząć na "
    "podwórzu, na którym rośnie stara lipa.",
    "ru": "Нижнюю мельницу построили в 1743 году, и она долго принадлежала монастырю на другой стороне долины. После "
    "большого наводнения от неё остался только фундамент. Новый хозяин велел отстроить её заново, и с тех пор она "
    "мелет зерно для соседних деревень, когда хватает воды. Летом сюда приходят путники, чтобы посмотреть на колесо и "
    "отдохнуть во дворе, где растёт старая липа. Зимой здесь никого не бывает.",
    "ro": "Moara de jos a fost construită în anul 1743 și a aparținut mult timp mănăstirii de pe cealaltă parte a văii. "
    "După marea inundație nu a mai rămas din ea decât temelia. Noul proprietar a pus să fie ridicată din nou, iar de "
    "atunci macină grâul satelor din jur când este destulă apă. Vara vin drumeți să vadă roata și să se odihnească în "
    "curte, la umbra unui tei bătrân.",
    "sv": "Den nedre kvarnen byggdes år 1743 och tillhörde länge klostret på andra sidan dalen. Efter den stora "
    "översvämningen var det inte mycket mer än grunden kvar av den. Den nye ägaren lät bygga upp den igen, och sedan "
    "dess maler den säden från byarna i trakten när det finns vatten nog. På sommaren kommer vandrare för att titta på "
    "hjulet och vila sig på gården.",
    "ja": "下の水車小屋は一七四三年に建てられ、長いあいだ谷の向こう側にある修道院のものだった。大きな洪水のあと、残ったのは土台だけで"
    "あった。新しい持ち主がそれを建て直させ、それからは水が足りるときに近くの村の穀物を挽いている。夏になると、車輪を見たり中庭で休んだり"
    "するために旅人がやって来る。冬には誰も来ない。",
    "zh": "下游的磨坊建于一七四三年，在很长的时间里属于山谷另一边的修道院。那场大水以后，剩下的只有地基。新的主人让人把它重新建了起来，"
    "从那时起，只要水够，它就给附近的村子磨粮食。夏天有走路的人来看水车，也在院子里休息。到了冬天，这里一个人也没有，只有风在老树中间吹着，"
    "河里的水结成了冰。",
}


@pytest.mark.parametrize("language", ARTICLES)
def test_an_article_is_judged_in_its_own_language(language: str) -> None:
    """Fails where an article in one of the twelve languages goes, or the words of another are taken for its own."""
    text = ARTICLES[language]
    assert detect(column([text]), EVERY) == [language]
    assert judge(text, RulesSettings(), language) is None
    foreign = "Wxq vbn plk rtz hgf. " * 3 + "Qwv zzx. Vvq rtx plm kkj. " * 12
    if language not in ("ja", "zh"):
        assert stop_words_in(foreign, language) == 0 == stop_words_in(text, "ko") < 2 <= stop_words_in(text, language)
        assert judge(text, RulesSettings()) == "gopher.min_stop_words"


def test_what_has_no_stop_word_of_its_language_is_dropped_and_told_so() -> None:
    words = " ".join(f"Hafen{chr(97 + n % 26)}{chr(97 + n // 26)}. Kahn{chr(97 + n % 26)}" for n in range(40))
    assert judge(words, RulesSettings(), "de") == "gopher.min_stop_words"
    assert judge_details(words, RulesSettings(), "de") == "0 stop words (de)"
    assert judge(words, RulesSettings(), "fi") is None  # no table, no judgement


def test_words_without_spaces_are_runs_of_characters() -> None:
    assert measure_in("東京は日本の首都である。", "ja").words == 6
    assert parted("Wikipediaは、自由だ") == "Wikipediaは、 自由 だ "
    assert measure_in("ภาษาไทย", "th").words == 2
    assert measure_in("東京 は", "de").words == 2
    assert measure_in("そう……だ。。。", "ja").ellipses == 2
    assert judge("短い。", RulesSettings(), "ja") == "gopher.min_words"
    assert judge("雨が降る。" * 60, RulesSettings(), "ja") == "repetition.max_top_2gram_characters"


def test_every_script_ends_sentences_with_its_own_marks() -> None:
    for language, text in {"hi": "यह है। वह है।", "ur": "یہ ہے۔ کیا؟", "am": "ቤት። ቤት።", "hy": "Այո։ Ոչ։"}.items():
        assert measure_in(text, language).sentences == 2, language
    assert measure_in("यह है। वह है।", "en").sentences == 0
    assert not terms_of("th").ends and judge("ก" * 300, RulesSettings(), "th") != "c4.min_sentences"


def test_a_dash_that_opens_speech_is_no_list() -> None:
    speech = "– " + ARTICLES["pl"]
    assert judge(speech.replace("–", "-"), RulesSettings(), "pl") is None
    lines = "\n".join(f"- {line}." for line in ARTICLES["pl"].split(". "))
    assert judge(lines + "\n" + lines.replace("młyn", "dom"), RulesSettings(), "pl") == "gopher.max_bullet_lines"


def test_bounds_are_wider_where_words_are_longer_and_never_narrower() -> None:
    for code, table in tables().items():
        terms = terms_of(code)
        assert 8 <= len(table.stop_words) and 0 <= table.length < 2
        assert terms.shortest <= 1 <= terms.longest
    long = f"{ARTICLES['de']} {' '.join(['Hochwassermarkierungen'] * 34)}."
    words = RulesSettings(repetition=RepetitionRules(enabled=False))
    assert judge(long, words, "de") is None
    assert judge(long, words, "es") == judge(long, words, "en") == "gopher.max_mean_word_length"


TEXTS = st.text(alphabet="aé.# \n…。、東のกข่।ー", max_size=60)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, st.sampled_from(["en", "fr", "ja", "th", "hi", "un"])), max_size=4))
def test_a_column_is_counted_as_its_documents_are(rows: list[tuple[str, str]]) -> None:
    counts = count_in(column([text for text, _ in rows]), [language for _, language in rows])
    for row, (text, language) in enumerate(rows):
        assert [int(one[row]) for one in counts] == [*measure_in(text, language)]


@pytest.mark.long
def test_texts_of_twelve_languages_are_kept(shared: Path) -> None:
    """Fails where more than one in fifty documents of 300 words of a treebank is dropped."""
    for path in sorted((shared / "data" / "languages" / "sentences").glob("*.jsonl")):
        space = "" if path.stem in ("ja", "zh") else " "
        documents, text = list[str](), ""
        for line in path.read_text(encoding="utf-8").splitlines():
            text += "\n\n" + space.join(json.loads(line)["sentences"])
            if (len(text.split()) if space else len(text) // 2) >= 300:
                documents.append(text.strip())
                text = ""
        languages = judged_languages(detect(column(documents), EVERY), EVERY)
        dropped = [REASONS[code] for code in reasons(column(documents), RulesSettings(), languages) if code]
        assert len(documents) >= 4 and len(dropped) <= 0.02 * len(documents), (path.stem, dropped)
