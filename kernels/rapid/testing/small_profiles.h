// Profiles of every algorithm whose chunks are so small that a few kilobytes hold many of them.
#pragma once

#include <array>
#include <string_view>

namespace kerf {

inline constexpr std::array<std::string_view, 24> kSmallProfiles = {
    "fixed:size=200", "rabin:min=64,avg=256,max=1000", "rabin:min=200,avg=256,max=300",
    "crc:min=256,bits=6,max=1000", "tttd:min=64,avg=256,max=1000",
    // Most of its cuts are by the small divisor.
    "tttd:min=64,avg=1024,max=1025", "fastcdc:min=64,avg=256,max=1021,level=3",
    "fastcdc:min=128,avg=256,max=256,level=0", "fastcdc2020:min=64,avg=1024,max=2048,level=0",
    "fastcdc2020:min=512,avg=1024,max=4096,level=0", "ae-max:window=64,max=1000",
    "ae-min:window=65,max=500", "maxp:window=64,max=1000", "maxp:window=64,max=129",
    "maxp-local:window=64,max=1000", "maxp-local:window=64,max=300", "ram:window=64,max=1000",
    "seqcdc:mode=increasing,length=2,trigger=3,skip=40,min=64,max=1000",
    "seqcdc:mode=decreasing,length=4,trigger=50,skip=0,min=100,max=600", "mincdc:min=64,max=200",
    "mincdc:min=100,max=1000", "maxcdc:min=64,max=200", "gear:min=64,avg=256,max=1000",
    "gear:min=64,avg=256,max=256"};

}  // namespace kerf
