-- A table of the proxy: a shared dictionary that every nginx worker reads, and a file that outlives the proxy. A change that cannot be
-- written is still valid in the dictionary. The mark says up to which change of the database the dictionary is complete; it belongs to one
-- run of the proxy and is not in the file, since a proxy that starts knows only what its file says.
local changes = require 'changes'
local journal_file = require 'journal_file'

-- What all tables note of themselves, by name.
local notes = ngx.shared.journals

local Journal = {}
Journal.__index = Journal
for name, method in pairs(journal_file) do Journal[name] = method end

local M = {}

-- A table: `name` of its dictionary; `parse` turns a line into key and value (no value = removed), or returns nil, nil and a reason;
-- its fourth result, if any, tells of the value before whether the line means it. `record` turns key and value into a line. Optional:
-- `take_apart` turns a value into what `find` returns, `shown` is the line that a list has instead, and `stale` the value of a record whose
-- file is of another boot or behind the dictionary.
function M.new(options)
  local journal = {
    dict = ngx.shared[options.name],
    parse = options.parse,
    record = options.record,
    shown = options.shown or options.record,
    stale = options.stale or function(value) return value end,
    take_apart = options.take_apart,
    number = changes.number(),
    seen = -1,
  }
  for _, note in ipairs { 'behind', 'lines', 'compacted', 'lock', 'mark' } do
    journal[note .. '_note'] = options.name .. ' ' .. note
  end
  return setmetatable(journal, Journal)
end

function Journal:put(key, value)
  local ok, failure = true, nil
  if value == nil then
    self.dict:delete(key)
  else
    ok, failure = self.dict:safe_set(key, value) -- a full dictionary refuses, and never drops another record
  end
  changes.note(self.number)
  return ok, failure
end

local HELD_BY_WORKER = 10000
-- No name is longer, with the id of an application before it; clients may send much longer ones, which would be held.
local MAX_HELD_BYTES = 512

-- What a key stands for, taken apart; nil without a record. Not to be changed: each worker holds what it has looked up, misses too, until
-- anything in the table changes. The number is read first: a value that changes meanwhile is held under the number of before.
function Journal:find(key)
  if #key > MAX_HELD_BYTES then return nil end
  local number = self.number[0]
  if number ~= self.seen or self.count >= HELD_BY_WORKER then
    self.seen, self.held, self.count = number, {}, 0
  end
  local found = self.held[key]
  if found == nil then
    local value = self.dict:get(key)
    found = value and self.take_apart(value) or false
    self.held[key], self.count = found, self.count + 1
  end
  return found or nil
end

-- Permits one change at a time across all nginx workers, so that file and dictionary agree. `work` never yields; the expiry
-- of the lock is for a worker that was killed while it held it.
function Journal:exclusively(work)
  while not notes:add(self.lock_note, true, 5) do ngx.sleep(0.001) end
  local ran, ok, failure = pcall(work)
  notes:delete(self.lock_note)
  if not ran then return nil, ok end
  return ok, failure
end

-- Applies one line; returns nil and a reason when it is malformed or could not be stored.
function Journal:change(line)
  local key, value, failure, meant = self.parse(line)
  if not key then return nil, failure end
  return self:exclusively(function()
    local old = self.dict:get(key)
    if old == value or (old and meant and not meant(old)) then return true end
    local ok, reason = self:put(key, value)
    if not ok then
      if old ~= nil then self:put(key, old) end -- it has made room in vain
      return nil, reason
    end
    ok, reason = self:append(line)
    if ok or self:disown() then return true end
    self:put(key, old)
    return nil, reason
  end)
end

-- Takes changes back: key -> its value before, or false. What was added goes first, to make room for what was there.
function Journal:restore(before)
  for key in pairs(before) do self:put(key, nil) end
  for key, value in pairs(before) do
    if value then self:put(key, value) end
  end
end

-- Not `gmatch`, which takes a hundred times as long for a table of certificates.
local function lines_of(text)
  local at = 1
  return function()
    if at > #text then return nil end
    local line_end = text:find('\n', at, true) or #text + 1
    local line = text:sub(at, line_end - 1)
    at = line_end + 1
    return line
  end
end

-- Makes the table equal to the lines of `text`, or changes nothing and returns nil and a reason.
function Journal:replace(text)
  local wanted = {}
  for line in lines_of(text) do
    local key, value, failure = self.parse(line)
    if failure then return nil, failure end
    wanted[key] = value
  end
  return self:exclusively(function()
    notes:delete(self.mark_note)
    local before = {}
    local function set(key, value)
      before[key] = self.dict:get(key) or false
      return self:put(key, value)
    end
    for _, key in ipairs(self.dict:get_keys(0)) do
      if not wanted[key] then set(key, nil) end
    end
    for key, value in pairs(wanted) do
      if self.dict:get(key) ~= value then
        local ok, failure = set(key, value)
        if not ok then
          self:restore(before)
          return nil, failure
        end
      end
    end
    local ok, failure = self:rewrite()
    if ok or self:disown() then return true end
    self:restore(before)
    return nil, failure
  end)
end

-- The whole table as JSON lines, or only the given keys, separated by commas.
function Journal:list(names)
  local keys = {}
  for key in (names or ''):gmatch('[^,]+') do keys[#keys + 1] = key end
  if not names then
    self:catch_up()
    keys = self.dict:get_keys(0)
  end
  local lines = {}
  for _, key in ipairs(keys) do
    local value = self.dict:get(key)
    if value then lines[#lines + 1] = self.shown(key, value) end
  end
  return table.concat(lines, '\n')
end

local proxy_id

-- The id of the proxy, which its folder has.
function M.identify(id)
  proxy_id = id
end

-- The proxy, this run of it, and its mark if it has one.
function Journal:standing()
  self:catch_up()
  local mark = notes:get(self.mark_note)
  return '{"id":"' .. proxy_id .. '","run":"' .. notes:get('run') .. '","mark":' .. (mark and '"' .. mark .. '"' or 'null') .. '}'
end

-- Stores the mark of this run. A mark of another run succeeds without effect: its writer has seen a table that this run may not have.
function Journal:set_mark(text)
  local run, mark = text:match('^([%x-]+) ([%w./: -]+)$')
  if not run then return nil, 'malformed mark: ' .. text:sub(1, 200) end
  if run == notes:get('run') then notes:set(self.mark_note, mark) end
  return true
end

return M
