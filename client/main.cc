#include "client/commands/command.h"

int main(int argc, char** argv) { return nightshift::Main(argc, argv); }
