"""JPEG files for tests, by the library that rondo-train itself reads them with (its C interface, through ctypes)."""
import ctypes
import ctypes.util

RGB, FULL_COLOUR, QUALITY = 0, 0, 90


def write(path, width, height, pixels):
    """`pixels`: width x height x 3 bytes."""
    library = ctypes.CDLL(ctypes.util.find_library("turbojpeg"))
    library.tjInitCompress.restype = ctypes.c_void_p
    library.tjCompress2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                                    ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_ulong),
                                    ctypes.c_int, ctypes.c_int, ctypes.c_int]
    library.tjFree.argtypes = library.tjDestroy.argtypes = [ctypes.c_void_p]
    handle = library.tjInitCompress()
    data, size = ctypes.c_void_p(), ctypes.c_ulong()
    if library.tjCompress2(handle, bytes(pixels), width, 0, height, RGB, ctypes.byref(data), ctypes.byref(size),
                           FULL_COLOUR, QUALITY, 0):
        raise RuntimeError("libturbojpeg could not write an image")
    with open(path, "wb") as file:
        file.write(ctypes.string_at(data, size.value))
    library.tjFree(data)
    library.tjDestroy(handle)
