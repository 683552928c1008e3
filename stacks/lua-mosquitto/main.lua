-- Lua on libmosquitto (mosquitto.c next to this file) with lua-cjson: functions of the client,
-- one thread, one loop for the socket and the commands.
-- Usage: main.lua FOLDER_OF_THE_MODULE OPTIONS

package.cpath = arg[1] .. "/?.so;" .. package.cpath
local mosquitto = require("mosquitto")
local cjson = require("cjson")

local STDIN = 0
local WAIT_MS, TICK_MS, KEEP_ALIVE_S = 10000, 1, 60
-- How long to wait for acknowledgements after `stop`.
local LEAVE_S = 2
local N_FIRST = 1000000000
-- 300 bytes with the ten digits of `n` and the closing brace.
local RECORD = '{"t":1521028800,"f":1073741825,"tp":"ud","pos":{"y":53.9045398,"x":27.5615244,'
  .. '"z":220,"s":62,"c":184,"sc":11},"i":3,"o":0,"p":{"mcc":257,"mnc":2,"lac":10471,'
  .. '"cell_id":55023,"gsm":21,"pwr_ext":13.842,"pwr_int":4.103,"odo":48213.671,"hdop":1,'
  .. '"temp":21.5,"fuel":47.25,"rpm":1840,"ign":1},"n":%d}'

local function fail(...)
  io.stderr:write(table.concat({ ... }, ": "), "\n")
  os.exit(1)
end

local function read_options()
  local options = {
    host = "127.0.0.1", port = 1883, ["in"] = "ud/#", out = "out",
    qos = 0, rate = 0, json = "cjson",
  }
  for at = 2, #arg, 2 do
    local name = arg[at]:match("^%-%-(%a+)$")
    if not name or not arg[at + 1] or (options[name] == nil and name ~= "workflow") then
      fail("no such option, or no value", arg[at])
    end
    options[name] = type(options[name]) == "number" and tonumber(arg[at + 1]) or arg[at + 1]
  end
  local paced = options.workflow == "publish" or options.workflow == "connect"
  if not paced and options.workflow ~= "subscribe" and options.workflow ~= "workflow" then
    fail("no such workflow", tostring(options.workflow))
  end
  if paced and options.rate <= 0 then
    fail("--rate must be above 0 for the workflows publish and connect")
  end
  if options.json ~= "cjson" then
    fail("no such JSON library", options.json)
  end
  options.paced = paced
  return options
end

local options = read_options()
local counts = { received = 0, matched = 0, published = 0, failed = 0, connects = 0 }
local completed, leaving = 0, false
local client

local function say(line)
  io.stdout:write(line, "\n")
  io.stdout:flush()
end

local function say_counts()
  local line = ("counts received=%d matched=%d published=%d failed=%d"):format(
    counts.received, counts.matched, counts.published, counts.failed)
  if options.workflow == "connect" then
    line = line .. (" connects=%d"):format(counts.connects)
  end
  say(line)
end

local function client_id()
  local stat = assert(io.open("/proc/self/stat"))
  local pid = stat:read("*n")
  stat:close()
  return ("stack-%d"):format(pid)
end
local ID = client_id()

local function publish(payload)
  if client:publish(options.out, payload, options.qos, false) then
    counts.published = counts.published + 1
  else
    counts.failed = counts.failed + 1
  end
end

local function count()
  counts.received = counts.received + 1
end

local function forward(_, payload)
  counts.received = counts.received + 1
  local is_json, record = pcall(cjson.decode, payload)
  if not is_json then
    counts.failed = counts.failed + 1
    return
  end
  local p = type(record) == "table" and record.p
  if type(p) == "table" and p.mcc ~= nil and p.mnc ~= nil and p.lac ~= nil
    and p.cell_id ~= nil then
    counts.matched = counts.matched + 1
    publish(payload)
  end
end

local function join()
  local answered = false
  client = assert(mosquitto.new(ID, true))
  client:on("connect", function(code)
    if code ~= 0 then fail("refused", tostring(code)) end
    if options.paced then
      answered = true
      client:leave_loop()
    else
      assert(client:subscribe(options["in"], options.qos))
    end
  end)
  client:on("subscribe", function(granted)
    if granted > 2 then fail("subscription refused") end
    answered = true
    client:leave_loop()
  end)
  client:on("disconnect", function(code)
    if not leaving then fail("disconnected", tostring(code)) end
  end)
  client:on("message", options.workflow == "subscribe" and count or forward)
  if options.qos > 0 then
    client:on("publish", function() completed = completed + 1 end)
  end
  assert(client:connect(options.host, options.port, KEEP_ALIVE_S))
  local _, why = client:loop(WAIT_MS)
  if not answered then fail("no answer from the broker", why or "time-out") end
end

local function connect_once()
  local one, code = assert(mosquitto.new(ID, true)), nil
  one:on("connect", function(given)
    code = given
    one:leave_loop()
  end)
  if one:connect(options.host, options.port, KEEP_ALIVE_S) then
    one:loop(WAIT_MS)
  end
  if code == 0 and one:disconnect() then
    counts.connects = counts.connects + 1
  else
    counts.failed = counts.failed + 1
  end
  one:destroy()
end

-- Open loop: how many operations are due; late ones are done at once.
local function pacer()
  local begin, number = mosquitto.now(), 0
  return function()
    local due = math.floor((mosquitto.now() - begin) * options.rate) + 1
    while number < due do
      if options.workflow == "connect" then
        connect_once()
      else
        publish(RECORD:format(N_FIRST + number))
      end
      number = number + 1
    end
  end
end

-- Waits until a command can be read, or for one tick if the workflow is paced.
local function wait(pace)
  local timeout_ms = pace and TICK_MS or -1
  if not client then
    return mosquitto.poll(timeout_ms, STDIN)
  end
  local can_read, why = client:loop(timeout_ms, STDIN)
  if can_read == nil then fail("disconnected", why) end
  return can_read
end

local function serve()
  -- poll cannot wait for what is already buffered.
  io.stdin:setvbuf("no")
  local pace
  while true do
    if pace then pace() end
    if wait(pace) then
      local command = io.stdin:read("*l")
      if command == nil or command == "stop" then
        return
      elseif command == "counts" then
        say_counts()
      elseif command == "start" then
        if options.paced and not pace then pace = pacer() end
      elseif command ~= "" then
        io.stderr:write("no such command: ", command, "\n")
      end
    end
  end
end

local function leave()
  local ends = mosquitto.now() + LEAVE_S
  while options.qos > 0 and completed < counts.published and mosquitto.now() < ends do
    if client:loop(TICK_MS) == nil then break end
  end
  leaving = true
  client:disconnect()
  client:destroy()
end

if options.workflow ~= "connect" then
  join()
end
local runtime = jit and jit.version:gsub(" ", "-") or _VERSION:gsub(" ", "-")
say(("ready lua-mosquitto libmosquitto-%s %s lua-cjson-%s"):format(
  mosquitto.version(), runtime, cjson._VERSION))
serve()
if client then
  leave()
end
say_counts()
