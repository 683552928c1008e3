/* A Lua module over libmosquitto, for Lua 5.1 (LuaJIT) to 5.4.
 *
 *   client = mosquitto.new(id, clean)
 *   client:on("connect" | "subscribe" | "message" | "publish" | "disconnect", function)
 *   client:connect(host, port, keep_alive_s), client:subscribe(filter, qos),
 *   client:publish(topic, payload, qos, retain), client:disconnect(), client:destroy()
 *   client:loop(timeout_ms, fd): reads, writes and calls the functions until the time is over or
 *     one of them called client:leave_loop() (false), or until the file descriptor fd, where one
 *     is given, can be read (true)
 *   mosquitto.poll(timeout_ms, fd): the same without a client
 *   mosquitto.version(), mosquitto.now(): seconds of a monotonic clock
 *
 * What fails returns nil and the reason. Everything happens on the thread that calls loop. */

#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <mosquitto.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#define CLIENT "mosquitto.client"

enum event { ON_CONNECT, ON_SUBSCRIBE, ON_MESSAGE, ON_PUBLISH, ON_DISCONNECT, EVENTS };
static const char *const EVENT_NAMES[] = {"connect", "subscribe", "message",
                                          "publish", "disconnect", NULL};

struct client {
    struct mosquitto *mosquitto;
    /* The state that is in loop; callbacks run in it. */
    lua_State *state;
    int functions[EVENTS];
    /* Whether a function failed in a callback; its error is on the stack. */
    int has_failed;
    /* Whether loop shall return. */
    int leaves_loop;
};

static int fail(lua_State *state, int rc) {
    lua_pushnil(state);
    lua_pushstring(state, mosquitto_strerror(rc));
    return 2;
}

static int done(lua_State *state, int rc) {
    if (rc != MOSQ_ERR_SUCCESS) {
        return fail(state, rc);
    }
    lua_pushboolean(state, 1);
    return 1;
}

static struct client *check(lua_State *state) {
    struct client *client = luaL_checkudata(state, 1, CLIENT);
    if (client->mosquitto == NULL) {
        luaL_error(state, "the client is destroyed");
    }
    return client;
}

/* Pushes the function of an event; 0 where there is none, or one has failed. */
static int push(struct client *client, enum event event) {
    if (client->functions[event] == LUA_NOREF || client->has_failed) {
        return 0;
    }
    lua_rawgeti(client->state, LUA_REGISTRYINDEX, client->functions[event]);
    return 1;
}

static void call(struct client *client, int arguments) {
    client->has_failed = lua_pcall(client->state, arguments, 0, 0) != 0;
}

static void on_number(struct client *client, enum event event, int number) {
    if (push(client, event)) {
        lua_pushinteger(client->state, number);
        call(client, 1);
    }
}

static void on_connect(struct mosquitto *of, void *data, int code) {
    (void)of;
    on_number(data, ON_CONNECT, code);
}

static void on_subscribe(struct mosquitto *of, void *data, int mid, int count, const int *qos) {
    (void)of, (void)mid;
    on_number(data, ON_SUBSCRIBE, count > 0 ? qos[0] : 128);
}

static void on_publish(struct mosquitto *of, void *data, int mid) {
    (void)of;
    on_number(data, ON_PUBLISH, mid);
}

static void on_disconnect(struct mosquitto *of, void *data, int code) {
    (void)of;
    on_number(data, ON_DISCONNECT, code);
}

static void on_message(struct mosquitto *of, void *data, const struct mosquitto_message *message) {
    (void)of;
    struct client *client = data;
    if (push(client, ON_MESSAGE)) {
        lua_pushstring(client->state, message->topic);
        lua_pushlstring(client->state, message->payload, (size_t)message->payloadlen);
        lua_pushinteger(client->state, message->qos);
        lua_pushboolean(client->state, message->retain);
        call(client, 4);
    }
}

static int new_client(lua_State *state) {
    const char *id = luaL_checkstring(state, 1);
    struct client *client = lua_newuserdata(state, sizeof *client);
    memset(client, 0, sizeof *client);
    for (int event = 0; event < EVENTS; event++) {
        client->functions[event] = LUA_NOREF;
    }
    luaL_getmetatable(state, CLIENT);
    lua_setmetatable(state, -2);
    client->mosquitto = mosquitto_new(id, lua_toboolean(state, 2), client);
    if (client->mosquitto == NULL) {
        lua_pushnil(state);
        lua_pushstring(state, strerror(errno));
        return 2;
    }
    mosquitto_connect_callback_set(client->mosquitto, on_connect);
    mosquitto_disconnect_callback_set(client->mosquitto, on_disconnect);
    return 1;
}

static int client_destroy(lua_State *state) {
    struct client *client = luaL_checkudata(state, 1, CLIENT);
    for (int event = 0; event < EVENTS; event++) {
        luaL_unref(state, LUA_REGISTRYINDEX, client->functions[event]);
        client->functions[event] = LUA_NOREF;
    }
    if (client->mosquitto != NULL) {
        mosquitto_destroy(client->mosquitto);
        client->mosquitto = NULL;
    }
    return 0;
}

static int client_on(lua_State *state) {
    struct client *client = check(state);
    int event = luaL_checkoption(state, 2, NULL, EVENT_NAMES);
    luaL_checktype(state, 3, LUA_TFUNCTION);
    lua_pushvalue(state, 3);
    luaL_unref(state, LUA_REGISTRYINDEX, client->functions[event]);
    client->functions[event] = luaL_ref(state, LUA_REGISTRYINDEX);
    switch (event) {
    case ON_SUBSCRIBE:
        mosquitto_subscribe_callback_set(client->mosquitto, on_subscribe);
        break;
    case ON_MESSAGE:
        mosquitto_message_callback_set(client->mosquitto, on_message);
        break;
    case ON_PUBLISH:
        mosquitto_publish_callback_set(client->mosquitto, on_publish);
        break;
    }
    return 0;
}

static int client_connect(lua_State *state) {
    struct client *client = check(state);
    const char *host = luaL_checkstring(state, 2);
    int port = (int)luaL_checkinteger(state, 3), keep_alive_s = (int)luaL_checkinteger(state, 4);
    return done(state, mosquitto_connect(client->mosquitto, host, port, keep_alive_s));
}

static int client_disconnect(lua_State *state) {
    struct client *client = check(state);
    client->state = state;
    int rc = mosquitto_disconnect(client->mosquitto);
    return client->has_failed ? lua_error(state) : done(state, rc);
}

static int client_subscribe(lua_State *state) {
    struct client *client = check(state);
    const char *filter = luaL_checkstring(state, 2);
    int qos = (int)luaL_optinteger(state, 3, 0);
    return done(state, mosquitto_subscribe(client->mosquitto, NULL, filter, qos));
}

static int client_publish(lua_State *state) {
    struct client *client = check(state);
    size_t length;
    const char *topic = luaL_checkstring(state, 2);
    const char *payload = luaL_checklstring(state, 3, &length);
    int qos = (int)luaL_optinteger(state, 4, 0);
    int rc = mosquitto_publish(client->mosquitto, NULL, topic, (int)length, payload, qos,
                               lua_toboolean(state, 5));
    return done(state, rc);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* How long poll may wait, for a time-out of which some has passed; -1 is for ever. */
static int rest_ms(double begin, int timeout_ms) {
    if (timeout_ms < 0) {
        return -1;
    }
    int passed_ms = (int)((now_s() - begin) * 1000);
    return passed_ms < timeout_ms ? timeout_ms - passed_ms : 0;
}

static int client_loop(lua_State *state) {
    struct client *client = check(state);
    struct mosquitto *mosquitto = client->mosquitto;
    int timeout_ms = (int)luaL_checkinteger(state, 2), fd = (int)luaL_optinteger(state, 3, -1);
    double begin = now_s();
    client->state = state;
    client->leaves_loop = 0;
    for (;;) {
        int wait_ms = rest_ms(begin, timeout_ms);
        short events = mosquitto_want_write(mosquitto) ? POLLIN | POLLOUT : POLLIN;
        /* A negative descriptor is passed over. */
        struct pollfd polled[] = {{mosquitto_socket(mosquitto), events, 0}, {fd, POLLIN, 0}};
        int ready = poll(polled, 2, wait_ms), rc = MOSQ_ERR_SUCCESS;
        if (ready < 0 && errno != EINTR) {
            return fail(state, MOSQ_ERR_ERRNO);
        }
        if (polled[0].revents & POLLOUT) {
            rc = mosquitto_loop_write(mosquitto, 1);
        }
        if (rc == MOSQ_ERR_SUCCESS && polled[0].revents & (POLLIN | POLLHUP | POLLERR)) {
            rc = mosquitto_loop_read(mosquitto, 1);
        }
        if (rc == MOSQ_ERR_SUCCESS) {
            rc = mosquitto_loop_misc(mosquitto);
        }
        if (client->has_failed) {
            client->has_failed = 0;
            return lua_error(state);
        }
        if (rc != MOSQ_ERR_SUCCESS) {
            return fail(state, rc);
        }
        if (polled[1].revents || client->leaves_loop || (ready == 0 && wait_ms >= 0) ||
            wait_ms == 0) {
            lua_pushboolean(state, polled[1].revents != 0);
            return 1;
        }
    }
}

static int client_leave_loop(lua_State *state) {
    check(state)->leaves_loop = 1;
    return 0;
}

static int module_poll(lua_State *state) {
    struct pollfd polled = {(int)luaL_checkinteger(state, 2), POLLIN, 0};
    lua_pushboolean(state, poll(&polled, 1, (int)luaL_checkinteger(state, 1)) > 0);
    return 1;
}

static int module_version(lua_State *state) {
    int major, minor, revision;
    mosquitto_lib_version(&major, &minor, &revision);
    lua_pushfstring(state, "%d.%d.%d", major, minor, revision);
    return 1;
}

static int module_now(lua_State *state) {
    lua_pushnumber(state, now_s());
    return 1;
}

static const luaL_Reg METHODS[] = {{"on", client_on},
                                   {"connect", client_connect},
                                   {"disconnect", client_disconnect},
                                   {"subscribe", client_subscribe},
                                   {"publish", client_publish},
                                   {"loop", client_loop},
                                   {"leave_loop", client_leave_loop},
                                   {"destroy", client_destroy},
                                   {"__gc", client_destroy},
                                   {NULL, NULL}};

static const luaL_Reg FUNCTIONS[] = {{"new", new_client},
                                     {"poll", module_poll},
                                     {"version", module_version},
                                     {"now", module_now},
                                     {NULL, NULL}};

static void fill(lua_State *state, const luaL_Reg *functions) {
    for (; functions->name != NULL; functions++) {
        lua_pushcfunction(state, functions->func);
        lua_setfield(state, -2, functions->name);
    }
}

int luaopen_mosquitto(lua_State *state) {
    mosquitto_lib_init();
    luaL_newmetatable(state, CLIENT);
    fill(state, METHODS);
    lua_pushvalue(state, -1);
    lua_setfield(state, -2, "__index");
    lua_newtable(state);
    fill(state, FUNCTIONS);
    return 1;
}
