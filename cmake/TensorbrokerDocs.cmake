# `ninja docs`: the API reference from the comments of the headers that are installed.
find_program(DOXYGEN doxygen)
if(NOT DOXYGEN)
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E echo "docs: skipped, doxygen is not installed" VERBATIM)
  return()
endif()
get_property(headers GLOBAL PROPERTY TENSORBROKER_PUBLIC_HEADERS)
list(REMOVE_ITEM headers tensorbroker/base/version.h)
list(SORT headers)
list(JOIN headers " \\\n    " DOXYGEN_INPUT)
configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile ${PROJECT_BINARY_DIR}/docs/Doxyfile @ONLY)
set(inputs ${headers})
list(TRANSFORM inputs PREPEND ${PROJECT_SOURCE_DIR}/)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/docs/html/index.html
  COMMAND ${DOXYGEN} -q ${PROJECT_BINARY_DIR}/docs/Doxyfile
  DEPENDS ${inputs} ${PROJECT_BINARY_DIR}/docs/Doxyfile ${PROJECT_SOURCE_DIR}/docs/mainpage.md
    ${PROJECT_SOURCE_DIR}/docs/doxygen_filter.py
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMENT "API reference: docs/html" VERBATIM)
add_custom_target(docs DEPENDS ${PROJECT_BINARY_DIR}/docs/html/index.html)
