# libpng: images in PNG files.
#   NEAP_PNG=OFF  builds without it, as does a system that has none; the library's sources see NEAP_HAS_PNG=0, and
#                 a PNG file gets an error that says so

option(NEAP_PNG "Read PNG pictures, where libpng is there" ON)

set(NEAP_HAS_PNG 0)
if(NEAP_PNG)
  find_package(PNG QUIET)
  if(PNG_FOUND)
    set(NEAP_HAS_PNG 1)
    message(STATUS "libpng: ${PNG_VERSION_STRING}")
  else()
    message(STATUS "libpng: none; PNG pictures will not be read (tools/setup.sh build installs it)")
  endif()
endif()
