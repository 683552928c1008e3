/* libmosquitto: callbacks on its network thread (mosquitto_loop_start), commands on the main
 * thread, yyjson or cJSON. With --rest-us the network thread is ours: when something has come it
 * rests for so long, and then takes all that is there. */

#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <mosquitto.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#define WAIT_S 10
/* How long to wait for acknowledgements after `stop`. */
#define LEAVE_MS 2000
#define TICK_NS 1000000L
#define KEEP_ALIVE_S 60
#define N_FIRST 1000000000ULL

/* 300 bytes with the ten digits of `n` and the closing brace. */
static const char RECORD[] =
    "{\"t\":1521028800,\"f\":1073741825,\"tp\":\"ud\",\"pos\":{\"y\":53.9045398,\"x\":27.5615244,"
    "\"z\":220,\"s\":62,\"c\":184,\"sc\":11},\"i\":3,\"o\":0,\"p\":{\"mcc\":257,\"mnc\":2,"
    "\"lac\":10471,\"cell_id\":55023,\"gsm\":21,\"pwr_ext\":13.842,\"pwr_int\":4.103,"
    "\"odo\":48213.671,\"hdop\":1,\"temp\":21.5,\"fuel\":47.25,\"rpm\":1840,\"ign\":1},\"n\":%llu}";

static const char *const NAMES[] = {"mcc", "mnc", "lac", "cell_id"};
#define NAMES_COUNT (sizeof NAMES / sizeof *NAMES)

enum workflow { SUBSCRIBE, WORKFLOW, PUBLISH, CONNECT };
static const char *const WORKFLOWS[] = {"subscribe", "workflow", "publish", "connect"};

enum verdict { NO_CELL, CELL, NOT_JSON };

static struct {
    const char *host, *in, *out;
    int port, qos;
    enum workflow workflow;
    double rate;
    unsigned rest_us;
    bool is_cjson;
    char id[32];
} options = {.host = "127.0.0.1", .port = 1883, .in = "ud/#", .out = "out"};

/* Each is written by one thread and read by the main thread. */
static atomic_ullong received, matched, published, failed, connects, completed;
static atomic_bool stopped, leaving;
static sem_t answered;
static struct mosquitto *client;

static void count(atomic_ullong *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void must(int rc, const char *what) {
    if (rc != MOSQ_ERR_SUCCESS) {
        fail(what, mosquitto_strerror(rc));
    }
}

static void say_counts(void) {
    printf("counts received=%llu matched=%llu published=%llu failed=%llu", received, matched,
           published, failed);
    if (options.workflow == CONNECT) {
        printf(" connects=%llu", connects);
    }
    printf("\n");
    fflush(stdout);
}

static enum verdict look_yyjson(const char *payload, size_t length) {
    yyjson_doc *document = yyjson_read(payload, length, 0);
    if (document == NULL) {
        return NOT_JSON;
    }
    yyjson_val *p = yyjson_obj_get(yyjson_doc_get_root(document), "p");
    enum verdict verdict = CELL;
    for (size_t at = 0; at < NAMES_COUNT; at++) {
        if (yyjson_obj_get(p, NAMES[at]) == NULL) {
            verdict = NO_CELL;
            break;
        }
    }
    yyjson_doc_free(document);
    return verdict;
}

static enum verdict look_cjson(const char *payload, size_t length) {
    cJSON *record = cJSON_ParseWithLength(payload, length);
    if (record == NULL) {
        return NOT_JSON;
    }
    const cJSON *p = cJSON_GetObjectItemCaseSensitive(record, "p");
    enum verdict verdict = CELL;
    for (size_t at = 0; at < NAMES_COUNT; at++) {
        if (cJSON_GetObjectItemCaseSensitive(p, NAMES[at]) == NULL) {
            verdict = NO_CELL;
            break;
        }
    }
    cJSON_Delete(record);
    return verdict;
}

static void publish(const void *payload, int length) {
    int rc = mosquitto_publish(client, NULL, options.out, length, payload, options.qos, false);
    count(rc == MOSQ_ERR_SUCCESS ? &published : &failed);
}

static void on_message(struct mosquitto *of, void *data, const struct mosquitto_message *message) {
    (void)of, (void)data;
    count(&received);
    if (options.workflow == SUBSCRIBE) {
        return;
    }
    enum verdict (*look)(const char *, size_t) = options.is_cjson ? look_cjson : look_yyjson;
    switch (look(message->payload, (size_t)message->payloadlen)) {
    case CELL:
        count(&matched);
        publish(message->payload, message->payloadlen);
        break;
    case NOT_JSON:
        count(&failed);
        break;
    case NO_CELL:
        break;
    }
}

static void on_connect(struct mosquitto *of, void *data, int code) {
    (void)data;
    if (code != 0) {
        fail("refused", mosquitto_connack_string(code));
    }
    if (options.workflow == PUBLISH) {
        sem_post(&answered);
    } else {
        must(mosquitto_subscribe(of, NULL, options.in, options.qos), "subscribe");
    }
}

static void on_subscribe(struct mosquitto *of, void *data, int mid, int granted, const int *qos) {
    (void)of, (void)data, (void)mid;
    if (granted != 1 || qos[0] > 2) {
        fail("subscribe", "refused");
    }
    sem_post(&answered);
}

static void on_disconnect(struct mosquitto *of, void *data, int code) {
    (void)of, (void)data;
    if (!leaving) {
        fail("disconnected", mosquitto_strerror(code));
    }
}

static void on_publish(struct mosquitto *of, void *data, int mid) {
    (void)of, (void)data, (void)mid;
    count(&completed);
}

static struct mosquitto *new_client(void *data) {
    struct mosquitto *made = mosquitto_new(options.id, true, data);
    if (made == NULL) {
        fail("mosquitto_new", "no memory");
    }
    must(mosquitto_int_option(made, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V311), "version");
    return made;
}

/* A library call that finds nothing to read takes no message: then all that was there has been. */
static void take_all(void) {
    unsigned long long before;
    do {
        before = received;
        must(mosquitto_loop_read(client, 1), "read");
    } while (received != before);
}

static void *rest_and_take(void *unused) {
    (void)unused;
    struct pollfd socket = {.fd = mosquitto_socket(client), .events = POLLIN};
    while (!leaving) {
        if (poll(&socket, 1, 1000) > 0 && received > 0) {
            usleep(options.rest_us);
        }
        take_all();
        must(mosquitto_loop_write(client, 1), "write");
        must(mosquitto_loop_misc(client), "keep alive");
    }
    return NULL;
}

static pthread_t resting;

static void join(void) {
    client = new_client(NULL);
    mosquitto_connect_callback_set(client, on_connect);
    mosquitto_disconnect_callback_set(client, on_disconnect);
    mosquitto_subscribe_callback_set(client, on_subscribe);
    mosquitto_message_callback_set(client, on_message);
    mosquitto_publish_callback_set(client, on_publish);
    must(mosquitto_connect(client, options.host, options.port, KEEP_ALIVE_S), "connect");
    if (options.rest_us > 0) {
        mosquitto_threaded_set(client, true);
        if (pthread_create(&resting, NULL, rest_and_take, NULL) != 0) {
            fail("pthread_create", "no thread");
        }
    } else {
        must(mosquitto_loop_start(client), "loop");
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    if (sem_timedwait(&answered, &until) != 0) {
        fail("broker", "no answer");
    }
}

static void on_joined(struct mosquitto *of, void *data, int code) {
    (void)of;
    *(int *)data = code;
}

static void connect_once(void) {
    int code = -1;
    struct mosquitto *one = new_client(&code);
    mosquitto_connect_callback_set(one, on_joined);
    int rc = mosquitto_connect(one, options.host, options.port, KEEP_ALIVE_S);
    while (rc == MOSQ_ERR_SUCCESS && code < 0) {
        rc = mosquitto_loop(one, WAIT_S * 1000, 1);
    }
    if (rc == MOSQ_ERR_SUCCESS && code == 0) {
        mosquitto_disconnect(one);
        count(&connects);
    } else {
        count(&failed);
    }
    mosquitto_destroy(one);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Open loop: does each operation when it is due; late ones are done at once. */
static void *pace(void *unused) {
    (void)unused;
    char payload[sizeof RECORD + 20];
    double begin = now_s();
    unsigned long long number = 0;
    while (!stopped) {
        unsigned long long due = (unsigned long long)((now_s() - begin) * options.rate) + 1;
        for (; number < due && !stopped; number++) {
            if (options.workflow == CONNECT) {
                connect_once();
            } else {
                int length = snprintf(payload, sizeof payload, RECORD, N_FIRST + number);
                publish(payload, length);
            }
        }
        nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
    }
    return NULL;
}

static void leave(void) {
    for (int ms = 0; options.qos > 0 && completed < published && ms < LEAVE_MS; ms++) {
        nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
    }
    leaving = true;
    if (options.rest_us > 0) {
        pthread_join(resting, NULL);
        mosquitto_disconnect(client);
    } else {
        mosquitto_disconnect(client);
        mosquitto_loop_stop(client, false);
    }
    mosquitto_destroy(client);
}

static void serve(void) {
    char line[64];
    pthread_t pacing;
    bool is_pacing = false;
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strcmp(line, "start") == 0) {
            if (!is_pacing && options.workflow >= PUBLISH) {
                is_pacing = pthread_create(&pacing, NULL, pace, NULL) == 0;
            }
        } else if (strcmp(line, "counts") == 0) {
            say_counts();
        } else if (strcmp(line, "stop") == 0) {
            break;
        } else if (line[0] != '\0') {
            fprintf(stderr, "no such command: %s\n", line);
        }
    }
    stopped = true;
    if (is_pacing) {
        pthread_join(pacing, NULL);
    }
}

static void read_workflow(const char *value) {
    for (size_t at = 0; at < sizeof WORKFLOWS / sizeof *WORKFLOWS; at++) {
        if (strcmp(value, WORKFLOWS[at]) == 0) {
            options.workflow = (enum workflow)at;
            return;
        }
    }
    fail("no such workflow", value);
}

static void read_options(int count, char **values) {
    for (int at = 1; at < count; at += 2) {
        const char *name = values[at], *value = values[at + 1];
        if (value == NULL) {
            fail(name, "needs a value");
        } else if (strcmp(name, "--host") == 0) {
            options.host = value;
        } else if (strcmp(name, "--port") == 0) {
            options.port = atoi(value);
        } else if (strcmp(name, "--workflow") == 0) {
            read_workflow(value);
        } else if (strcmp(name, "--in") == 0) {
            options.in = value;
        } else if (strcmp(name, "--out") == 0) {
            options.out = value;
        } else if (strcmp(name, "--qos") == 0) {
            options.qos = atoi(value);
        } else if (strcmp(name, "--rate") == 0) {
            options.rate = atof(value);
        } else if (strcmp(name, "--rest-us") == 0) {
            options.rest_us = (unsigned)atoi(value);
        } else if (strcmp(name, "--json") == 0) {
            options.is_cjson = strcmp(value, "cjson") == 0;
            if (!options.is_cjson && strcmp(value, "yyjson") != 0) {
                fail("no such JSON library", value);
            }
        } else {
            fail("no such option", name);
        }
    }
    if (options.workflow >= PUBLISH && options.rate <= 0) {
        fail("--rate", "must be above 0 for the workflows publish and connect");
    }
    if (options.qos < 0 || options.qos > 1) {
        fail("--qos", "is 0 or 1");
    }
    /* A publisher has nothing to take. */
    if (options.workflow >= PUBLISH) {
        options.rest_us = 0;
    }
    snprintf(options.id, sizeof options.id, "stack-%d", (int)getpid());
}

int main(int count, char **values) {
    read_options(count, values);
    sem_init(&answered, 0, 0);
    mosquitto_lib_init();
    if (options.workflow != CONNECT) {
        join();
    }
    int major, minor, revision;
    mosquitto_lib_version(&major, &minor, &revision);
    const char *json = options.is_cjson ? cJSON_Version() : YYJSON_VERSION_STRING;
    printf("ready c-libmosquitto libmosquitto-%d.%d.%d gcc-%s %s-%s\n", major, minor, revision,
           __VERSION__, options.is_cjson ? "cJSON" : "yyjson", json);
    fflush(stdout);
    serve();
    if (client != NULL) {
        leave();
    }
    say_counts();
    mosquitto_lib_cleanup();
    return 0;
}
