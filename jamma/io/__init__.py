"""Reading and writing of files."""

from jamma.io.plink import PlinkData, load_plink_binary

__all__ = ["PlinkData", "load_plink_binary"]
