# exports.awk - core/driver.def to a linker script for libcuda.so.1: which names it
# exports, and which of them are further names of another function.
#
# Run with LC_ALL=C; any awk will do.

/^DRIVER\(/ {
    split($0, part, /[(), ]+/)
    exported = part[2]; asked = part[3]; version = part[4] + 0
    stream = part[5]; who = part[6]

    if (!(exported in is_row)) {
        rows[++count] = exported
        is_row[exported] = 1
        if (who == "REFUSED")
            alias[exported] = "fp4emu_refused"
    }
    if (stream != "NONE" && !(exported "_" tolower(stream) in alias)) {
        suffixed = exported "_" tolower(stream)
        alias[suffixed] = who == "REFUSED" ? "fp4emu_refused" : exported
        extra[++extras] = suffixed
    }
    if (!(asked in oldest) || version < oldest_version[asked]) {
        if (!(asked in oldest))
            names[++name_count] = asked
        oldest[asked] = who == "REFUSED" ? "fp4emu_refused" : exported
        oldest_version[asked] = version
    }
}

END {
    for (i = 1; i <= name_count; i++) {
        if (!(names[i] in is_row)) {
            alias[names[i]] = oldest[names[i]]
            extra[++extras] = names[i]
        }
    }
    for (i = 1; i <= extras; i++)
        rows[++count] = extra[i]
    print "/* Generated from core/driver.def. */"
    for (i = 1; i <= count; i++)
        if (rows[i] in alias)
            print rows[i] " = " alias[rows[i]] ";"
    print "VERSION { {\n  global:"
    for (i = 1; i <= count; i++)
        print "    " rows[i] ";"
    print "  local: *;\n}; };"
}
