/* A machine that plays a script, under the names of NVIDIA's management library.

   LAPTIME_TEST_NVML names a file of lines: CARD FUNCTION ARGUMENT ANSWER...
   CARD is a number, -1 for the whole machine, * for every card without a line of its own. Each call takes the next
   ANSWER; the last one stays. An answer is values parted by commas, !CODE for one of NVML's errors, or ~ for a call that
   never comes back. A file of the same name with ".then" behind it, once it is there, is what counts first: so a test
   changes the machine in the middle. What has no line at all is not supported. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MACHINE = -1, ANY = -2, CARDS = 256, WORDS = 1024 };
enum { INSUFFICIENT_SIZE = 7, NOT_SUPPORTED = 3, UNINITIALIZED = 1, TIMEOUT = 10 };

typedef struct { int number; } Card;
typedef struct { int card; long argument; unsigned asked; char function[48]; char answers[WORDS]; } Line;
typedef struct { Line *lines; int count; } Script;
typedef struct { char text[256]; double numbers[16]; int count; } Answer;

static Card cards[CARDS];
static Script now, then;
static int opened;

static Script load(const char *path) {
    Script script = {NULL, 0};
    FILE *file = fopen(path, "r");
    char row[WORDS + 128], card[16];
    while (file && fgets(row, sizeof row, file)) {
        script.lines = realloc(script.lines, sizeof(Line) * (size_t)(script.count + 1));
        Line *line = &script.lines[script.count];
        line->asked = 0;
        if (sscanf(row, "%15s %47s %ld %1023[^\n]", card, line->function, &line->argument, line->answers) != 4) continue;
        line->card = *card == '*' ? ANY : atoi(card);
        script.count++;
    }
    if (file) fclose(file);
    return script;
}

static Line *find(Script *script, int card, const char *function, long argument) {
    Line *found = NULL;
    for (int each = 0; each < script->count; each++) {
        Line *line = &script->lines[each];
        if (line->argument != argument || strcmp(line->function, function)) continue;
        if (line->card == card) return line;
        if (line->card == ANY && card != MACHINE) found = line;
    }
    return found;
}

static int answer(int card, const char *function, long argument, Answer *out) {
    char path[512], words[WORDS], *place, *word, *next;
    snprintf(path, sizeof path, "%s.then", getenv("LAPTIME_TEST_NVML"));
    if (!then.lines && !access(path, R_OK)) then = load(path);
    Line *line = find(&then, card, function, argument);
    if (!line) line = find(&then, card, "Everything", 0);
    if (!line) line = find(&now, card, function, argument);
    if (!line) return NOT_SUPPORTED;
    strcpy(words, line->answers);
    word = strtok_r(words, " ", &place);
    for (unsigned each = 0; each < line->asked && (next = strtok_r(NULL, " ", &place)); each++) word = next;
    line->asked++;
    if (*word == '~') for (;;) pause();
    if (*word == '!') return atoi(word + 1);
    snprintf(out->text, sizeof out->text, "%s", word);
    for (char *letter = out->text; *letter; letter++) if (*letter == '_') *letter = ' ';
    out->count = 0;
    for (char *part = word; part && out->count < 16; part = strchr(part, ',') ? strchr(part, ',') + 1 : NULL)
        out->numbers[out->count++] = strtod(part, NULL);
    return 0;
}

static int number(Card *card, const char *function, long argument, unsigned *out) {
    Answer told;
    int code = answer(card ? card->number : MACHINE, function, argument, &told);
    if (!code) *out = (unsigned)told.numbers[0];
    return code;
}

static int words(Card *card, const char *function, char *out, unsigned length) {
    Answer told;
    int code = answer(card ? card->number : MACHINE, function, 0, &told);
    if (!code) snprintf(out, length, "%s", told.text);
    return code;
}

static int pair(Card *card, const char *function, unsigned *first, unsigned *second) {
    Answer told;
    int code = answer(card->number, function, 0, &told);
    if (!code) *first = (unsigned)told.numbers[0], *second = (unsigned)told.numbers[told.count - 1];
    return code;
}

/* The library itself. */

int nvmlInitWithFlags(unsigned flags) {
    Answer told;
    (void)flags;
    if (!opened) now = load(getenv("LAPTIME_TEST_NVML")), then.count = 0, then.lines = NULL;
    for (int each = 0; each < CARDS; each++) cards[each].number = each;
    int code = answer(MACHINE, "Init", 0, &told);
    if (code == NOT_SUPPORTED || !code) return opened++, 0;
    return code;
}

int nvmlShutdown(void) { return opened ? (opened--, 0) : UNINITIALIZED; }
const char *nvmlErrorString(int code) { return code == 28 ? "GPU Not Found" : "An error"; }
int nvmlSystemGetDriverVersion(char *out, unsigned length) { return words(NULL, "DriverVersion", out, length); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return number(NULL, "CudaVersion", 0, (unsigned *)out); }
int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }
int nvmlDeviceGetCount_v2(unsigned *out) { return opened ? number(NULL, "Count", 0, out) : UNINITIALIZED; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Card **out) {
    unsigned card = index;
    int code = number(NULL, "Handle", (long)index, &card);
    if (code && code != NOT_SUPPORTED) return code;
    *out = &cards[card];
    return 0;
}

/* Who a card is. */

int nvmlDeviceGetUUID(Card *card, char *out, unsigned length) { return words(card, "UUID", out, length); }
int nvmlDeviceGetName(Card *card, char *out, unsigned length) { return words(card, "Name", out, length); }

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char busId[32]; } PciInfo;
int nvmlDeviceGetPciInfo_v3(Card *card, PciInfo *out) { return words(card, "Bus", out->busId, sizeof out->busId); }

int nvmlDeviceGetCudaComputeCapability(Card *card, int *major, int *minor) {
    return pair(card, "Capability", (unsigned *)major, (unsigned *)minor);
}
int nvmlDeviceGetMigMode(Card *card, unsigned *current, unsigned *pending) { return pair(card, "Mig", current, pending); }
int nvmlDeviceGetEccMode(Card *card, unsigned *current, unsigned *pending) { return pair(card, "Ecc", current, pending); }
int nvmlDeviceGetMaxMigDeviceCount(Card *card, unsigned *out) { return number(card, "MigMost", 0, out); }
int nvmlDeviceGetGpuInstanceId(Card *card, unsigned *out) { return number(card, "GpuInstance", 0, out); }
int nvmlDeviceGetPersistenceMode(Card *card, unsigned *out) { return number(card, "Persistence", 0, out); }
int nvmlDeviceGetDisplayActive(Card *card, unsigned *out) { return number(card, "Display", 0, out); }

int nvmlDeviceGetMigDeviceHandleByIndex(Card *card, unsigned index, Card **out) {
    unsigned instance = 0;
    int code = number(card, "MigDevice", (long)index, &instance);
    if (!code) *out = &cards[instance];
    return code == NOT_SUPPORTED ? 6 : code;
}

/* What it shows. */

#define SHOWS(name) int nvmlDeviceGet##name(Card *card, unsigned *out) { return number(card, #name, 0, out); }
#define SHOWS_ONE(name) \
    int nvmlDeviceGet##name(Card *card, unsigned which, unsigned *out) { return number(card, #name, (long)which, out); }
SHOWS(PowerUsage) SHOWS(EnforcedPowerLimit) SHOWS(CurrPcieLinkGeneration) SHOWS(CurrPcieLinkWidth)
SHOWS(MaxPcieLinkGeneration) SHOWS(MaxPcieLinkWidth) SHOWS(FanSpeed)
SHOWS_ONE(Temperature) SHOWS_ONE(ClockInfo) SHOWS_ONE(MaxClockInfo) SHOWS_ONE(PcieThroughput)

static int large(Card *card, const char *function, unsigned long long *out) {
    Answer told;
    int code = answer(card->number, function, 0, &told);
    if (!code) *out = (unsigned long long)told.numbers[0];
    return code;
}
int nvmlDeviceGetTotalEnergyConsumption(Card *card, unsigned long long *out) { return large(card, "Energy", out); }
int nvmlDeviceGetCurrentClocksEventReasons(Card *card, unsigned long long *out) { return large(card, "Reasons", out); }
int nvmlDeviceGetCurrentClocksThrottleReasons(Card *card, unsigned long long *out) {
    return large(card, "FormerReasons", out);
}
typedef struct { unsigned gpu, memory; } Use;
int nvmlDeviceGetUtilizationRates(Card *card, Use *out) { return pair(card, "Use", &out->gpu, &out->memory); }

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } NewMemory;
int nvmlDeviceGetMemoryInfo(Card *card, Memory *out) {
    Answer told;
    int code = answer(card->number, "Memory", 0, &told);
    if (!code) out->total = (unsigned long long)told.numbers[0], out->used = (unsigned long long)told.numbers[1];
    return code;
}
int nvmlDeviceGetMemoryInfo_v2(Card *card, NewMemory *out) {
    Answer told;
    int code = answer(card->number, "NewMemory", 0, &told);
    if (!code) out->total = (unsigned long long)told.numbers[0], out->used = (unsigned long long)told.numbers[1];
    return code;
}

typedef struct {
    unsigned field, scope;
    int64_t at, latency;
    unsigned type, code;
    union { double d; unsigned long long u; } value;
} Field;
int nvmlDeviceGetFieldValues(Card *card, int count, Field *fields) {
    Answer told;
    for (int each = 0; each < count; each++) {
        fields[each].code = (unsigned)answer(card->number, "Field", (long)fields[each].field, &told);
        fields[each].type = 3;
        if (!fields[each].code) fields[each].value.u = (unsigned long long)told.numbers[0];
    }
    return 0;
}

/* An answer is PID,BYTES,PID,BYTES... */
typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } Process;
static int processes(Card *card, const char *function, unsigned *count, Process *out) {
    Answer told;
    int code = answer(card->number, function, 0, &told);
    unsigned there = code ? 0 : (unsigned)told.count / 2;
    if (code) return code;
    if (*count < there) return *count = there, INSUFFICIENT_SIZE;
    for (unsigned each = 0; each < there; each++) {
        out[each].pid = (unsigned)told.numbers[2 * each];
        out[each].memory = told.numbers[2 * each + 1] < 0 ? ~0ULL : (unsigned long long)told.numbers[2 * each + 1];
    }
    *count = there;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Card *card, unsigned *count, Process *out) {
    return processes(card, "Computing", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Card *card, unsigned *count, Process *out) {
    return processes(card, "Drawing", count, out);
}

/* Events: an answer is the Xid that happened, or 0 for none. */
typedef struct { Card *card; unsigned long long type, data; unsigned instance, compute; } Event;
int nvmlEventSetCreate(Card ***out) { return *out = calloc(1, sizeof(Card *)), 0; }
int nvmlEventSetFree(Card **set) { return free(set), 0; }
int nvmlDeviceRegisterEvents(Card *card, unsigned long long types, Card **set) {
    unsigned allowed;
    (void)types;
    *set = card;
    return number(card, "Events", 0, &allowed);
}
int nvmlEventSetWait_v2(Card **set, Event *out, unsigned wait) {
    unsigned xid = 0;
    int code = number(*set, "Xid", 0, &xid);
    (void)wait;
    if (code) return code == NOT_SUPPORTED ? TIMEOUT : code;
    out->data = xid;
    return xid ? 0 : TIMEOUT;
}

/* Counters of activity: a sample keeps whose it is; instances are asked through their card. */
typedef struct { unsigned version, supported; } Support;
typedef struct { int card; } Sample;
typedef struct { unsigned id, code; double value; char *names[3]; } Metric;
typedef struct { unsigned version, count; Sample *first, *second; Metric metrics[1]; } Wanted;
int nvmlGpmQueryDeviceSupport(Card *card, Support *out) { return number(card, "Gpm", 0, &out->supported); }
int nvmlGpmSampleAlloc(Sample **out) { return *out = calloc(1, sizeof(Sample)), 0; }
int nvmlGpmSampleFree(Sample *sample) { return free(sample), 0; }
int nvmlGpmSampleGet(Card *card, Sample *sample) {
    Answer told;
    int code = answer(card->number, "GpmSample", 0, &told);
    sample->card = card->number;
    return code == NOT_SUPPORTED ? 0 : code;
}
int nvmlGpmMigSampleGet(Card *card, unsigned instance, Sample *sample) {
    unsigned which = 0;
    int code = number(card, "GpmInstance", (long)instance, &which);
    sample->card = (int)which;
    return code;
}
int nvmlGpmMetricsGet(Wanted *wanted) {
    Answer told;
    if (wanted->first == wanted->second || wanted->first->card != wanted->second->card) return 2;
    for (unsigned each = 0; each < wanted->count; each++) {
        Metric *metric = &wanted->metrics[each];
        metric->code = (unsigned)answer(wanted->second->card, "Metric", (long)metric->id, &told);
        if (!metric->code) metric->value = told.numbers[0];
    }
    return 0;
}
