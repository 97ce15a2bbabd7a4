"""The pre-flight check: an init container that looks at target and proposer before an engine loads them.

It reads configs, tokenizers and the headers of weight files, and needs neither a GPU nor torch. `checkpoint`
opens a folder, `target` and `engines` say what the pair has to fit, `draft_model`, `eagle`, `eagle3` and
`medusa` compare, `memory` adds up what the pod will hold, `pair` joins them into one verdict, `__main__`
writes it where the operator finds it. Refused is only what cannot work, in words that say what to change.
Source: reference/checkpoints.md; released code of vLLM 0.32 and SGLang 0.5.23.
"""
