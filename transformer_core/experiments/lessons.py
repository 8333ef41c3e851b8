"""The six lessons: what is often said of a Transformer, asked of small ones and answered with what they did.

Every figure is of the runs that are kept in ``measured``; a test compares them.
"""

from collections.abc import Mapping
from types import MappingProxyType

from transformer_core.experiments import variants
from transformer_core.experiments.lesson import Lesson

_EVERY = (
    Lesson(
        name="no_decoder_positions",
        title="No positions on the decoder",
        title_zh="解码器没有位置编码",
        question="Does a decoder without positions write word salad?",
        question_zh="解码器没有位置编码，写出来的就会词序混乱吗？",
        answer="Not here. Reversing words of three to seven letters, 98.9 % to 99.8 % of whole answers are right "
        "without positions on the decoder, and 100 % with them (300 steps, seeds 7, 1 and 2). The causal mask tells "
        "the place: the first query sees one key, the second two, and so on. The salad comes when the encoder has no "
        "positions either: then 4.6 % to 6.2 % are right, since nobody knows any more in which order the source "
        "stood.",
        answer_zh="在这里不会。反转三到七个字母的词，解码器没有位置编码时，98.9% 到 99.8% 的完整答案正确，有位置编码"
        "时是 100%（300 步，种子 7、1、2）。因果掩码透露了位置：第一个查询只看到一个键，第二个看到两个，依此类推。编"
        "码器也没有位置编码时才会混乱：只有 4.6% 到 6.2% 正确，因为源序列的顺序已无从得知。",
        task="reverse",
        variants=variants.POSITIONS,
    ),
    Lesson(
        name="large_vocabulary",
        title="A vocabulary too large for the data",
        title_zh="词表相对数据太大",
        question="What if most words of the vocabulary are rare in the data?",
        question_zh="如果词表里的大多数词在数据中都很少见，会怎样？",
        answer="Copying words out of 10, 300 or 3000 letters, the same 200 steps show each letter about 12,800, 427 "
        "or 43 times. Whole answers are right in 99.7 % to 100.0 %, 82.8 % to 88.0 % and 0.0 % of cases (seeds 7, 1 "
        "and 2). A letter is copied only after its own row of the embedding and of the output has been learned, and "
        "43 times were not enough: given the right beginning, 18.4 % to 21.1 % of the tokens were right, one in six "
        "of all being the end. Rare words are better made unknown, or cut into parts.",
        answer_zh="复制由 10、300 或 3000 种字母组成的词，同样的 200 步里，每种字母分别出现约 12,800、427 和 43 次。"
        "完整答案的正确率是 99.7% 到 100.0%、82.8% 到 88.0% 和 0.0%（种子 7、1、2）。一个字母要先学会自己在嵌入和输出"
        "中的那一行，才能被复制，43 次还不够：给出正确的开头时，也只有 18.4% 到 21.1% 的词元正确，而六个词元里就有一"
        "个是结束符。罕见的词最好算作未知词，或者拆成小块。",
        task="copy",
        variants=variants.VOCABULARIES,
    ),
    Lesson(
        name="no_scaling",
        title="No scaling at d_k 512",
        title_zh="d_k 为 512 而不缩放",
        question="What does the division by √d_k do when d_k is 512?",
        question_zh="d_k 为 512 时，除以 √d_k 起什么作用？",
        answer="Without it the scores are 22.6 times as large, and before the first step the largest weight of a "
        "query is 0.95 to 0.96 on average instead of 0.47 to 0.48: each query looks at one key already, by chance, "
        "and a softmax that is so sure passes hardly any gradient on. After 200 steps of copying at most 0.3 % of "
        "whole answers are right, with the division 70.0 % to 76.3 % (seeds 7, 1 and 2). With d_k 16 it matters "
        "less: 83.6 % to 87.2 % without, 99.4 % to 99.6 % with it.",
        answer_zh="不除的话，分数是原来的 22.6 倍；第一步之前，每个查询的最大权重平均就有 0.95 到 0.96，而不是 0.47 "
        "到 0.48：每个查询已经碰巧只看一个键，这样尖锐的 softmax 几乎不传梯度。复制任务 200 步后，完整答案至多 0.3% "
        "正确，除了则是 70.0% 到 76.3%（种子 7、1、2）。d_k 为 16 时影响较小：不除 83.6% 到 87.2%，除 99.4% 到 99.6%。",
        task="copy",
        variants=variants.SCALES,
    ),
    Lesson(
        name="no_warmup_deep_post",
        title="No warm-up in a deep Post-LN",
        title_zh="深层 Post-LN 不预热",
        question="Does a deep Post-LN fail without warm-up?",
        question_zh="深层 Post-LN 不预热就会失败吗？",
        answer="It depends on the rate. Six layers on each side, width 32, Adam, 300 steps, seeds 7, 1 and 2. At a "
        "constant 0.002 Post-LN learns: the loss is at 0.71 to 0.90 by then. At 0.01 it ends at 2.19 to 2.37; a "
        "model that never reads the source has 2.19. Nothing is infinite, and nothing is learned: 0.0 % of whole "
        "answers are right. Pre-LN at the same 0.01 comes to 0.08 to 0.17 and has 81.6 % to 92.6 % right. Warmed up "
        "over 100 steps to 0.01, Post-LN learns again, unevenly: 0.37 to 1.39, with 1.3 % to 46.4 % right.",
        answer_zh="要看学习率。两侧各六层、宽 32、Adam、300 步，种子 7、1、2。学习率恒为 0.002 时 Post-LN 能学，此时"
        "损失降到 0.71 到 0.90。0.01 时停在 2.19 到 2.37，而从不读源序列的模型是 2.19：没有出现无穷大，也什么都没学到，"
        "完整答案 0.0% 正确。同样 0.01，Pre-LN 降到 0.08 到 0.17，81.6% 到 92.6% 正确。先用 100 步预热到 0.01，"
        "Post-LN 又能学了，但参差不齐：0.37 到 1.39，1.3% 到 46.4% 正确。",
        task="reverse",
        variants=variants.DEPTHS,
    ),
    Lesson(
        name="label_smoothing",
        title="Label smoothing on and off",
        title_zh="标签平滑的有无",
        question="Does label smoothing give better answers?",
        question_zh="标签平滑会让答案更好吗？",
        answer="Here it does, and by another measure it does worse. After 300 steps of reversing 100 % of whole "
        "answers are right with smoothing 0.1, and 97.1 % to 97.7 % without it (seeds 7, 1 and 2). The loss of new "
        "questions, counted without smoothing, is 0.10 with it and 0.02 without it: a model that is told to be "
        "unsure gives its likeliest token 90.5 % instead of 99.1 % (seed 7). The paper says as much of its own: "
        "perplexity gets worse, accuracy better (section 5.4).",
        answer_zh="在这里会，但换一种量法却更差。反转任务 300 步后，平滑 0.1 时 100% 的完整答案正确，不平滑时 97.1% "
        "到 97.7%（种子 7、1、2）。新题目上不计平滑的损失，平滑时是 0.10，不平滑时是 0.02：被要求留有余地的模型，最可"
        "能的词元只给 90.5% 的概率，而不是 99.1%（种子 7）。论文对自己的模型也这么说：困惑度变差，准确率变好"
        "（5.4 节）。",
        task="reverse",
        variants=variants.SMOOTHINGS,
    ),
    Lesson(
        name="teacher_forcing_at_inference",
        title="Teacher forcing at inference",
        title_zh="推理时仍用教师强制",
        question="May a model be judged by feeding it the right answer?",
        question_zh="可以一边喂正确答案，一边评判模型吗？",
        answer="Only where it cannot read ahead. After 150 steps of reversing, 93.9 %, 97.2 % and 95.2 % of whole "
        "answers are right (seeds 7, 1 and 2), and it is the same whether the model writes alone or is fed the right "
        "answer: one that is right at every place gives itself the right beginning. Its tokens look better when fed, "
        "98.9 % against 97.9 % (seed 7), since a mistake has no consequences. Without the causal mask the same "
        "measure says 100 %, and alone the model writes at most 0.1 % right: it had read the answer off its input.",
        answer_zh="只有在模型不能偷看后文时才行。反转任务训练 150 步后，完整答案的正确率是 93.9%、97.2% 和 95.2%（种"
        "子 7、1、2），自己写还是喂入正确答案都一样：每一处都对的模型，写出的就是正确的开头。按词元算，喂入时显得更好，"
        "98.9% 对 97.9%（种子 7），因为写错一处没有后果。去掉因果掩码，这样量出来是 100%，让模型自己写，至多 0.1% 正"
        "确：它是从输入里抄的答案。",
        task="reverse",
        variants=variants.FORCINGS,
    ),
)
LESSONS: Mapping[str, Lesson] = MappingProxyType({lesson.name: lesson for lesson in _EVERY})
"""Every lesson under its name."""
