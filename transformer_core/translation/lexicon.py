"""The words of the built-in corpus. Chinese is written with spaces between its words, English with the forms it needs.

Which verb goes with which thing and place is said here, so that every sentence made of them makes sense.
"""

from typing import NamedTuple


class Person(NamedTuple):
    """Who acts. ``form`` is the verb's: "I", "he" (he, she, a name) or "they" (you, we, they, the children)."""

    zh: str
    en: str
    obj: str
    form: str = "he"


class Noun(NamedTuple):
    """A thing that can be counted, with the measure word that Chinese puts between number and thing."""

    zh: str
    one: str
    many: str
    measure: str


class Act(NamedTuple):
    """Something that is done somewhere: "swim", "swims", "swam", "swimming", and where."""

    zh: str
    base: str
    third: str
    past: str
    ing: str
    places: tuple[str, ...]


class Deal(NamedTuple):
    """Something that is done to things: the verb, the things it is done to, and where."""

    zh: str
    base: str
    past: str
    things: tuple[str, ...]
    places: tuple[str, ...]


PRONOUNS = (
    Person("我", "I", "me", "I"), Person("他", "he", "him"), Person("她", "she", "her"),
    Person("我们", "we", "us", "they"), Person("他们", "they", "them", "they"),
)  # fmt: skip
YOU = Person("你", "you", "you", "they")
OTHERS = tuple(
    Person(zh, en, en, form)
    for zh, en, form in (
        ("老师", "the teacher", "he"), ("医生", "the doctor", "he"), ("邻居", "the neighbour", "he"),
        ("李 医生", "Doctor Li", "he"), ("小明", "Xiaoming", "he"), ("小红", "Xiaohong", "he"),
        ("我 妈妈", "my mother", "he"), ("我 爸爸", "my father", "he"), ("我 哥哥", "my older brother", "he"),
        ("我 妹妹", "my younger sister", "he"), ("她 爷爷", "her grandfather", "he"),
        ("他 奶奶", "his grandmother", "he"), ("孩子们", "the children", "they"), ("学生们", "the students", "they"),
    )
)  # fmt: skip
PEOPLE = (*PRONOUNS, *OTHERS)
OWNERS = (
    ("我 的", "my"), ("他 的", "his"), ("她 的", "her"), ("我们 的", "our"), ("他们 的", "their"),
    ("老师 的", "the teacher's"), ("小明 的", "Xiaoming's"), ("小红 的", "Xiaohong's"),
)  # fmt: skip

PLACES = {
    "library": ("图书馆 里", "in the library"), "home": ("家 里", "at home"), "park": ("公园 里", "in the park"),
    "school": ("学校 里", "at school"), "office": ("办公室 里", "in the office"), "cafe": ("咖啡馆 里", "in the café"),
    "cinema": ("电影院 里", "at the cinema"), "shop": ("商店 里", "in the shop"),
    "market": ("市场 上", "at the market"),
    "supermarket": ("超市 里", "at the supermarket"), "bookshop": ("书店 里", "in the bookshop"),
    "restaurant": ("饭馆 里", "in the restaurant"), "seaside": ("海 边", "at the seaside"),
    "station": ("车站", "at the station"), "airport": ("机场", "at the airport"),
    "hospital": ("医院 里", "at the hospital"),
    "kitchen": ("厨房 里", "in the kitchen"), "room": ("房间 里", "in the room"), "river": ("河 边", "by the river"),
}  # fmt: skip
GOALS = (
    ("图书馆", "to the library"), ("公园", "to the park"), ("学校", "to school"), ("电影院", "to the cinema"),
    ("市场", "to the market"), ("超市", "to the supermarket"), ("书店", "to the bookshop"),
    ("医院", "to the hospital"),
    ("机场", "to the airport"), ("车站", "to the station"), ("海 边", "to the seaside"), ("饭馆", "to the restaurant"),
)  # fmt: skip
CITIES = (("北京", "Beijing"), ("上海", "Shanghai"), ("广州", "Guangzhou"), ("西安", "Xi'an"), ("成都", "Chengdu"))
IN_TOWN = (("公共汽车", "by bus"), ("地铁", "by underground"), ("出租车", "by taxi"))
FAR_AWAY = (("火车", "by train"), ("飞机", "by plane"), ("长途 汽车", "by coach"))

PAST = (
    ("昨天", "yesterday"), ("前天", "the day before yesterday"), ("昨天 晚上", "last night"),
    ("今天 早上", "this morning"), ("上 个 周末", "last weekend"), ("星期一", "on Monday"),
    ("三 天 以前", "three days ago"),
)  # fmt: skip
LONG_AGO = (("上 个 星期", "last week"), ("上 个 月", "last month"), ("去年", "last year"))
FUTURE = (
    ("明天", "tomorrow"), ("后天", "the day after tomorrow"), ("今天 晚上", "tonight"),
    ("这 个 周末", "this weekend"), ("明天 早上", "tomorrow morning"),
)  # fmt: skip
FAR = (("下 个 星期", "next week"), ("下 个 月", "next month"), ("明年", "next year"))
HABIT = (
    ("每天", "every day"), ("每天 早上", "every morning"), ("每天 晚上", "every evening"),
    ("每 个 周末", "every weekend"), ("每 个 星期天", "every Sunday"),
)  # fmt: skip
OFTEN = (("常常", "often"), ("有时候", "sometimes"), ("总是", "always"), ("很少", "rarely"), ("从来 不", "never"))
NUMBERS = (("一", ""), ("一", ""), ("两", "two"), ("三", "three"), ("四", "four"), ("五", "five"), ("几", "a few"))

NOUNS = {
    noun.one: noun
    for noun in (
        Noun("书", "book", "books", "本"), Noun("杂志", "magazine", "magazines", "本"),
        Noun("报纸", "newspaper", "newspapers", "份"), Noun("信", "letter", "letters", "封"),
        Noun("文章", "article", "articles", "篇"), Noun("电影", "film", "films", "部"),
        Noun("自行车", "bicycle", "bicycles", "辆"), Noun("衬衫", "shirt", "shirts", "件"),
        Noun("毛衣", "jumper", "jumpers", "件"), Noun("裙子", "skirt", "skirts", "条"),
        Noun("杯子", "cup", "cups", "个"), Noun("花瓶", "vase", "vases", "个"), Noun("苹果", "apple", "apples", "个"),
        Noun("橘子", "orange", "oranges", "个"), Noun("蛋糕", "cake", "cakes", "个"),
        Noun("画", "picture", "pictures", "幅"),
        Noun("照片", "photo", "photos", "张"), Noun("手机", "phone", "phones", "部"),
        Noun("钱包", "wallet", "wallets", "个"),
        Noun("钥匙", "key", "keys", "把"), Noun("雨伞", "umbrella", "umbrellas", "把"),
        Noun("歌", "song", "songs", "首"),
        Noun("椅子", "chair", "chairs", "把"), Noun("桌子", "table", "tables", "张"),
        Noun("帽子", "hat", "hats", "顶"),
        Noun("茶", "cup of tea", "cups of tea", "杯"), Noun("咖啡", "cup of coffee", "cups of coffee", "杯"),
        Noun("面条", "bowl of noodles", "bowls of noodles", "碗"), Noun("米饭", "bowl of rice", "bowls of rice", "碗"),
        Noun("牛奶", "bottle of milk", "bottles of milk", "瓶"), Noun("房间", "room", "rooms", "个"),
        Noun("朋友", "friend", "friends", "个"), Noun("同学", "classmate", "classmates", "个"),
        Noun("猫", "cat", "cats", "只"), Noun("鸟", "bird", "birds", "只"), Noun("狗", "dog", "dogs", "只"),
        Noun("树", "tree", "trees", "棵"),
    )
}  # fmt: skip

ACTS = (
    Act("跑步", "run", "runs", "ran", "running", ("park", "school", "river")),
    Act("做 饭", "cook", "cooks", "cooked", "cooking", ("kitchen", "home")),
    Act("学习", "study", "studies", "studied", "studying", ("library", "school", "home", "cafe", "room")),
    Act("工作", "work", "works", "worked", "working", ("office", "hospital", "home", "restaurant", "airport")),
    Act("跳舞", "dance", "dances", "danced", "dancing", ("park", "school", "seaside")),
    Act("唱歌", "sing", "sings", "sang", "singing", ("park", "school", "room", "kitchen")),
    Act("踢 足球", "play football", "plays football", "played football", "playing football", ("park", "school")),
    Act("打 篮球", "play basketball", "plays basketball", "played basketball", "playing basketball",
        ("park", "school")),
    Act("弹 钢琴", "play the piano", "plays the piano", "played the piano", "playing the piano",
        ("home", "school", "cafe")),
    Act("听 音乐", "listen to music", "listens to music", "listened to music", "listening to music",
        ("home", "room", "park", "cafe")),
    Act("看 电视", "watch television", "watches television", "watched television", "watching television",
        ("home", "room")),
    Act("喝 咖啡", "drink coffee", "drinks coffee", "drank coffee", "drinking coffee", ("cafe", "office", "kitchen")),
    Act("吃 饭", "eat", "eats", "ate", "eating", ("home", "restaurant", "school", "office")),
    Act("画 画", "paint", "paints", "painted", "painting", ("school", "park", "river", "room")),
    Act("看 书", "read", "reads", "read", "reading", ("library", "park", "home", "cafe", "bookshop")),
    Act("散步", "take a walk", "takes a walk", "took a walk", "taking a walk", ("park", "seaside", "river")),
    Act("买 菜", "buy vegetables", "buys vegetables", "bought vegetables", "buying vegetables",
        ("market", "supermarket")),
)  # fmt: skip
DEALS = (
    Deal("看", "read", "read", ("book", "magazine", "newspaper", "article", "letter"),
        ("library", "home", "park", "cafe")),
    Deal("写", "write", "wrote", ("letter", "article"), ("home", "library", "office", "room")),
    Deal("买", "buy", "bought", ("book", "magazine", "newspaper"), ("bookshop", "station", "airport")),
    Deal("买", "buy", "bought", ("shirt", "jumper", "skirt", "hat", "cup", "vase", "umbrella"), ("shop", "market")),
    Deal("买", "buy", "bought", ("apple", "orange", "cake", "bottle of milk"), ("supermarket", "market")),
    Deal("买", "buy", "bought", ("bottle of milk",), ("supermarket",)),
    Deal("画", "paint", "painted", ("picture", "tree"), ("school", "park", "room", "river")),
    Deal("喝", "drink", "drank", ("cup of tea", "cup of coffee"), ("cafe", "office", "home", "restaurant")),
    Deal("吃", "eat", "ate", ("apple", "orange"), ("home", "park", "school")),
    Deal("吃", "eat", "ate", ("bowl of noodles", "bowl of rice"), ("home", "restaurant", "school")),
    Deal("拍", "take", "took", ("photo",), ("park", "seaside", "school", "airport", "river")),
    Deal("丢", "lose", "lost", ("phone", "wallet", "key", "umbrella", "hat"),
    ("station", "park", "airport", "cinema")),
    Deal("遇见", "meet", "met", ("friend", "classmate"), ("station", "airport", "supermarket", "park", "cinema")),
    Deal("学", "learn", "learnt", ("song",), ("school",)),
    Deal("看见", "see", "saw", ("cat", "bird", "dog", "bird"), ("park", "school", "seaside", "river")),
)  # fmt: skip

ABOUT = {
    "有趣": ("interesting", ("book", "magazine", "newspaper", "article", "letter", "film", "picture")),
    "漂亮": ("beautiful", ("shirt", "jumper", "skirt", "hat", "cup", "vase", "picture", "photo")),
    "贵": ("expensive", ("shirt", "jumper", "skirt", "hat", "vase", "bicycle", "phone", "umbrella")),
    "好吃": ("tasty", ("apple", "orange", "cake")),
    "旧": ("old", ("bicycle", "book", "hat", "wallet", "umbrella", "phone")),
}
BETTER = {
    "贵": ("more expensive", "expensive"), "便宜": ("cheaper", "cheap"), "大": ("bigger", "big"),
    "小": ("smaller", "small"), "重": ("heavier", "heavy"), "新": ("newer", "new"),
    "漂亮": ("more beautiful", "beautiful"),
}  # fmt: skip
COMPARED = ("bicycle", "cup", "vase", "umbrella", "table", "chair", "hat", "wallet", "phone")
PERSONAL = {
    "高": ("taller", "tall"), "年轻": ("younger", "young"), "忙": ("busier", "busy"), "快乐": ("happier", "happy"),
    "强壮": ("stronger", "strong"), "勇敢": ("braver", "brave"),
}  # fmt: skip
COLOURS = (
    ("红色", "red"), ("蓝色", "blue"), ("白色", "white"), ("黑色", "black"), ("绿色", "green"), ("黄色", "yellow"),
)  # fmt: skip
JOBS = (("医生", "a doctor"), ("老师", "a teacher"), ("司机", "a driver"), ("护士", "a nurse"), ("画家", "a painter"))
STRANGERS = (("男人", "man"), ("女人", "woman"), ("男孩", "boy"), ("女孩", "girl"), ("老人", "old person"))
ADULTS = STRANGERS[:2]
RELATIONS = (
    ("我 的 朋友", "my friend"), ("我 的 邻居", "my neighbour"), ("我 的 同学", "my classmate"),
    ("他 的 朋友", "his friend"), ("她 的 邻居", "her neighbour"), ("小明 的 同学", "Xiaoming's classmate"),
)  # fmt: skip

SPOTS = {
    "table": ("桌子 上", "on the table"), "chair": ("椅子 上", "on the chair"), "bed": ("床 上", "on the bed"),
    "shelf": ("书架 上", "on the bookshelf"), "bag": ("书包 里", "in the school bag"),
    "box": ("盒子 里", "in the box"),
    "fridge": ("冰箱 里", "in the fridge"), "drawer": ("抽屉 里", "in the drawer"),
}  # fmt: skip
BELONGS = {
    "table": ("book", "magazine", "newspaper", "cup", "vase", "apple", "phone", "key", "letter", "cake", "wallet"),
    "chair": ("hat", "book", "shirt", "jumper", "umbrella", "newspaper"),
    "bed": ("shirt", "skirt", "jumper", "book", "phone", "magazine"),
    "shelf": ("book", "magazine", "photo", "vase", "cup"),
    "bag": ("book", "key", "phone", "umbrella", "wallet", "orange"),
    "box": ("letter", "photo", "key", "apple", "orange", "cup"),
    "fridge": ("apple", "orange", "cake"),
    "drawer": ("letter", "photo", "key", "wallet", "newspaper"),
}
RESULTS = (
    ("门", "关上", "close", "closed", "the door"), ("窗户", "关上", "close", "closed", "the window"),
    ("门", "打开", "open", "opened", "the door"), ("窗户", "打开", "open", "opened", "the window"),
    ("盒子", "打开", "open", "opened", "the box"), ("衣服", "洗 干净", "wash", "washed", "the clothes"),
    ("工作", "做 完", "finish", "finished", "the work"), ("灯", "关掉", "turn off", "turned off", "the light"),
    ("电视", "关掉", "turn off", "turned off", "the television"),
    ("房间", "打扫 干净", "clean", "cleaned", "the room"),
    ("自行车", "修 好", "repair", "repaired", "the bicycle"), ("手机", "修 好", "repair", "repaired", "the phone"),
)  # fmt: skip
HANDED = (("还给", "returned", "to"), ("借给", "lent", "to"), ("送给", "gave", "to"), ("卖给", "sold", "to"))
HANDED_THINGS = ("book", "bicycle", "umbrella", "phone", "vase", "picture", "magazine", "hat")
SUFFERED = (
    ("打破", "broken", ("cup", "vase"),
     (("猫", "the cat"), ("孩子们", "the children"), ("狗", "the dog"), ("小明", "Xiaoming"))),
    ("吃掉", "eaten", ("cake", "apple", "orange"),
     (("狗", "the dog"), ("我 弟弟", "my younger brother"), ("小红", "Xiaohong"), ("孩子们", "the children"))),
    ("偷走", "stolen", ("wallet", "phone", "bicycle", "umbrella"), (("小偷", "a thief"),)),
    ("借走", "borrowed", ("book", "bicycle", "umbrella", "magazine"),
     (("同学", "a classmate"), ("邻居", "the neighbour"), ("小明", "Xiaoming"), ("老师", "the teacher"))),
    ("找到", "found", ("wallet", "phone", "key", "hat"),
     (("老师", "the teacher"), ("警察", "the police"), ("小红", "Xiaohong"), ("邻居", "the neighbour"))),
    ("卖掉", "sold", ("bicycle", "picture", "vase"), (("我 爸爸", "my father"), ("邻居", "the neighbour"))),
)  # fmt: skip
REASONS = (
    ("下雨", "it was raining"), ("下雪", "it was snowing"), ("天气 太 热", "it was too hot"),
    ("天气 太 冷", "it was too cold"),
)  # fmt: skip
WEATHER = (
    ("下雨", "it rains"), ("下雪", "it snows"), ("天气 很 热", "it is very hot"), ("天气 很 冷", "it is very cold"),
)  # fmt: skip
AFTERWARDS = (
    ("做 完 工作", "finishing the work"), ("吃 完 晚饭", "having dinner"), ("看 完 电影", "watching the film"),
    ("写 完 信", "writing the letter"), ("洗 完 衣服", "washing the clothes"), ("打扫 完 房间", "cleaning the room"),
)  # fmt: skip
BEDTIME = ("看 书", "听 音乐", "看 电视", "弹 钢琴", "唱歌", "喝 牛奶")
LANGUAGES = (("汉语", "Chinese"), ("英语", "English"), ("法语", "French"), ("日语", "Japanese"))
STUDIES = (*LANGUAGES, ("历史", "history"), ("数学", "mathematics"), ("音乐", "music"))
