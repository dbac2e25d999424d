# Turns FILE into C source: the bytes as NAME[] with a NUL behind them, and NAME_bytes. Called by CMakeLists.txt with
# -DFILE= -DNAME= -DOUT=.
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include \"flame_assets.h\"\nconst char ${NAME}[] = {\n${bytes}0};\nconst size_t ${NAME}_bytes = sizeof ${NAME} - 1;\n")
