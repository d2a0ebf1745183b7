"""Texts in four languages for folders made by tests: each has a mark of its own, and the same number gives the same.

A text is made of the words below, in the order of the language's sentences, and of hardly any word group twice.
"""

import random
import re

MARK = re.compile(r"\bQX\d{6}\b")

WORDS = {
    "en": (
        "harbor lantern orchard bridge kettle letter garden winter ferry morning market stone teacher violin cellar "
        "meadow station blanket river candle captain basket pepper window island doctor saddle thunder village copper "
        "needle mountain barrel feather chapel engine ribbon shepherd mirror pocket tower valley walnut anchor beacon "
        "carpet dragon emerald forest glacier hammer insect jacket kitchen ladder magnet notebook onion pebble quarry "
        "rabbit sailor temple umbrella vinegar wagon yard zipper acorn bottle cotton drawer elbow fiddle goose hotel"
    ).split(),
    "de": (
        "Hafen Laterne Garten Brücke Kessel Brief Winter Fähre Morgen Markt Stein Lehrer Geige Keller Wiese Bahnhof "
        "Decke Fluss Kerze Korb Pfeffer Fenster Insel Ärztin Sattel Donner Dorf Kupfer Nadel Berg Fass Feder Kapelle "
        "Motor Schäfer Spiegel Tasche Turm Tal Walnuss Anker Teppich Drache Wald Gletscher Hammer Jacke Küche Leiter "
        "Magnet Heft Zwiebel Kiesel Hase Matrose Tempel Schirm Essig Wagen Eichel Flasche Baumwolle Schublade Gans"
    ).split(),
    "ja": (
        "港 灯台 果樹園 橋 やかん 手紙 庭 冬 渡し船 朝 市場 石 先生 バイオリン 地下室 草原 駅 毛布 川 ろうそく 船長 "
        "かご 胡椒 窓 島 医者 鞍 雷 村 銅 針 山 樽 羽根 礼拝堂 機関車 リボン 羊飼い 鏡 ポケット 塔 谷 胡桃 錨 絨毯 竜 "
        "森 氷河 金槌 虫 上着 台所 梯子 磁石 帳面 玉葱 小石 採石場 兎 水夫 寺 傘 酢 荷車 どんぐり 瓶 綿 引き出し 宿屋"
    ).split(),
    "ar": (
        "الميناء المصباح البستان الجسر الرسالة الحديقة الشتاء العبارة الصباح السوق الحجر المعلم الكمان القبو المرج "
        "المحطة البطانية النهر الشمعة القبطان السلة الفلفل النافذة الجزيرة الطبيب السرج الرعد القرية النحاس الإبرة "
        "الجبل البرميل الريشة المحرك الشريط الراعي المرآة الجيب البرج الوادي الجوز المرساة السجادة الغابة المطرقة "
        "الحشرة المعطف المطبخ السلم المغناطيس الدفتر البصل الحصاة الأرنب البحار المظلة الخل العربة القطن الدرج الفندق"
    ).split(),
}
SENTENCES = {
    "en": (
        "The {} and the {} were near the {} that we had seen before the {}.",
        "Nobody in the {} would have carried a {} to the {} with that {}.",
        "It was said that a {} of the {} had been left with the {} in the {}.",
        "When they came to the {}, the {} was older than any {} or {}.",
        "She wrote of the {} and of a {}, but never of the {} that the {} hid.",
        "My uncle sold his {} for a {} and half a {} to pay for the {}.",
        "Is there still a {} behind your {}, or did the {} take the {}?",
        "Once a year, {} and {} are painted blue for the feast of the {} and the {}.",
        "Have you asked them why {} costs more than {} where {} and {} are made?",
    ),
    "de": (
        "Der alte {} stand neben {} und {}, und niemand sprach noch von {}.",
        "Wir haben gestern {} und {} gesehen, aber nicht {} oder {}.",
        "Es wird erzählt, dass {} und {} in der Nähe von {} und {} waren.",
        "Als sie zu {} kamen, war {} schon lange mit {} und {} vertauscht.",
        "Mein Onkel verkaufte {}, um sich endlich {} statt {} oder {} zu leisten.",
        "Gibt es hinter eurem Haus noch {} mit {} und {} ohne {}?",
        "Einmal im Jahr werden {} und {} blau gestrichen, damit {} zu {} passt.",
        "Fragt doch, warum {} mehr kostet als {}, wo man {} aus {} macht.",
        "Sie schrieb über {} und über {}, doch nie ein Wort über {} oder {}.",
    ),
    "ja": (
        "{}と{}は、{}の近くにあった{}のそばで見つかりました。",
        "昨日、私たちは{}から{}まで歩き、{}と{}を眺めました。",
        "{}の話では、{}はもう{}にも{}にもないそうです。",
        "{}が鳴ると、{}の人々は{}を持って{}へ急ぎました。",
        "おじは{}を売って、{}と{}に加えて古い{}を買いました。",
        "あなたの家の裏には、まだ{}や{}、それに{}か{}がありますか。",
        "毎年一度、{}も{}も青く塗られ、{}の祭りで{}が配られます。",
        "なぜ{}は{}より高いのか、{}を作る{}の職人に聞いてみましょう。",
        "彼女は{}について書きましたが、{}や{}や{}には触れませんでした。",
    ),
    "ar": (
        "كان {} قريبا من {} حيث رأينا {} قبل {}.",
        "قالوا إن {} و{} لم يكونا في {} ولا عند {}.",
        "عندما وصلوا إلى {} وجدوا {} مع {} خلف {}.",
        "كتبت عن {} وعن {} ولكنها لم تذكر {} أو {}.",
        "باع عمي {} واشترى {} بعد أن ترك {} عند {}.",
        "هل ما زال {} وراء بيتكم مع {} أم أخذ {} كل {}؟",
        "مرة كل عام يصبغ {} باللون الأزرق ويحمل الناس {} إلى {} في {}.",
        "اسألهم لماذا {} أغلى من {} حيث يصنع {} من {}.",
        "أما {} فقد ضاع منذ زمن ولم يبق من {} و{} سوى {}.",
    ),
}


def text(number: int, sentences: int = 8, language: str = "en") -> str:
    """A text in paragraphs of four sentences, with its mark in the first."""
    draw = random.Random(number)
    words, forms = WORDS[language], SENTENCES[language]
    made = [form.format(*draw.sample(words, 4)) for form in draw.sample(forms, sentences)]
    made[0] = f"QX{number:06d} {made[0]}"
    return "\n\n".join(" ".join(made[start : start + 4]) for start in range(0, sentences, 4)) + "\n"


def marks(content: str) -> list[str]:
    """The marks of the texts in a document."""
    return MARK.findall(content)


def mark(number: int) -> str:
    """The mark of a text."""
    return f"QX{number:06d}"
