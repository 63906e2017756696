"""What `rec_lang.compile` has made: each folder of the cache is a package `rec_lang.compiled.NAME_HASH`.

Modules are found here by their names, so that another process can unpickle what they define.
"""
from rec_lang import cache_folder

__path__ = [cache_folder()]
