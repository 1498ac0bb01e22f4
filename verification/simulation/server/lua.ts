// Lua 5.1 itself, compiled to WebAssembly, with what Redis gives to scripts: redis.call, struct and cmsgpack.
import wasmoon from 'wasmoon-lua5.1'
import { msgpack, msgunpack, type Packed, structPack, structUnpack } from './packing.js'
import { decimal, Failure, type Reply, Status } from './reply.js'

/** Lua's own interface in C; numbers are pointers, or places on its stack. */
interface Module {
  HEAPU8: Uint8Array
  HEAPU32: Uint32Array
  addFunction(act: (state: number) => number, signature: 'ii'): number
  _malloc(bytes: number): number
  _free(pointer: number): void
  _luaL_newstate(): number
  _luaL_openlibs(state: number): void
  _luaL_loadbuffer(state: number, text: number, length: number, name: number): number
  _luaL_ref(state: number, table: number): number
  _lua_pcall(state: number, args: number, results: number, handler: number): number
  _lua_error(state: number): number
  _lua_gettop(state: number): number
  _lua_settop(state: number, top: number): void
  _lua_checkstack(state: number, more: number): number
  _lua_type(state: number, at: number): number
  _lua_tonumber(state: number, at: number): number
  _lua_toboolean(state: number, at: number): number
  _lua_tolstring(state: number, at: number, length: number): number
  _lua_objlen(state: number, at: number): number
  _lua_next(state: number, at: number): number
  _lua_rawgeti(state: number, at: number, index: number): void
  _lua_rawseti(state: number, at: number, index: number): void
  _lua_rawget(state: number, at: number): number
  _lua_rawset(state: number, at: number): void
  _lua_createtable(state: number, list: number, record: number): void
  _lua_pushnil(state: number): void
  _lua_pushnumber(state: number, value: number): void
  _lua_pushboolean(state: number, value: number): void
  _lua_pushlstring(state: number, text: number, length: number): void
  _lua_pushvalue(state: number, at: number): void
  _lua_pushcclosure(state: number, act: number, upvalues: number): void
}

const GLOBALS = -10002
const REGISTRY = -10000
const [NIL, BOOLEAN, NUMBER, STRING, TABLE] = [0, 1, 3, 4, 5]

/** A Buffer with the methods below its `toString` and `write`, which cost less. */
type Bytes = Buffer & {
  latin1Slice(from: number, to: number): string
  latin1Write(text: string, at: number): number
}

/** Carries out a command of a script. */
export type Call = (words: string[]) => Reply

/** Runs scripts one after another; each runs whole. */
export class Lua {
  readonly #state: number
  readonly #length: number
  #memory = Buffer.alloc(0) as unknown as Bytes
  #room = 0
  #roomBytes = 0
  readonly #refs = new Map<string, number>()
  #call: Call = () => null

  private constructor(readonly c: Module) {
    this.#state = c._luaL_newstate()
    c._luaL_openlibs(this.#state)
    this.#length = c._malloc(8)
    const call = (raises: boolean) => () => this.#redisCall(raises)
    const text = (name: string) => () => this.#pushRecord(name, this.#string(1))
    this.#library('redis', {
      call: call(true),
      pcall: call(false),
      error_reply: text('err'),
      status_reply: text('ok'),
    })
    this.#library('struct', {
      pack: () => {
        const values = Array.from({ length: c._lua_gettop(this.#state) - 1 }, (_, i) =>
          c._lua_tonumber(this.#state, i + 2),
        )
        this.#pushString(structPack(this.#string(1), values))
        return 1
      },
      unpack: () => {
        const from = c._lua_gettop(this.#state) > 2 ? c._lua_tonumber(this.#state, 3) : 1
        const values = structUnpack(this.#string(1), this.#string(2), from)
        if (values === undefined) return this.#raise('data string too short')
        for (const value of values) c._lua_pushnumber(this.#state, value)
        return values.length
      },
    })
    this.#library('cmsgpack', {
      pack: () => {
        this.#pushString(msgpack(this.#read(1)))
        return 1
      },
      unpack: () => {
        this.#push(msgunpack(this.#string(1)))
        return 1
      },
    })
    this.#withRedisErrors()
  }

  /** As Redis 7.0 does it: an error of redis.call is caught as its text. */
  #withRedisErrors(): void {
    const source = `
      local caught = function(done, failure, ...)
        if not done and type(failure) == 'table' and failure.err then return false, failure.err end
        return done, failure, ...
      end
      local theirs = pcall
      pcall = function(...) return caught(theirs(...)) end`
    this.run('pcall', source, [], [], () => null)
  }

  static async create(): Promise<Lua> {
    // What wasmoon passes on makes two texts for each call: the functions themselves cost less.
    type Made = { instance: { exports: object } }
    const wasm = (globalThis as unknown as { WebAssembly: { instantiate(...args: unknown[]): Promise<Made> } })
      .WebAssembly
    const { instantiate } = wasm
    let functions: object = {}
    wasm.instantiate = async (...args) => {
      const made = await instantiate(...args)
      functions = made.instance.exports
      return made
    }
    const { module } = await wasmoon.LuaApi.initialize()
    wasm.instantiate = instantiate
    const direct = Object.entries(functions).map(([name, act]) => [`_${name}`, act])
    return new Lua(Object.assign(Object.create(module), Object.fromEntries(direct)) as Module)
  }

  /** Runs the script `name`, its hash, which is compiled from `source` when it is run first. */
  run(name: string, source: string, keys: readonly string[], args: readonly string[], call: Call): Reply {
    const { c } = this
    const state = this.#state
    this.#call = call
    c._lua_settop(state, 0)
    let ref = this.#refs.get(name)
    if (ref === undefined) {
      this.#fill(`@user_script\0${source}`)
      if (c._luaL_loadbuffer(state, this.#room + 13, source.length, this.#room) !== 0) {
        return new Failure(`ERR Error compiling script (new function): ${this.#string(-1)}`)
      }
      ref = c._luaL_ref(state, REGISTRY)
      this.#refs.set(name, ref)
    }
    this.#setGlobal('KEYS', keys)
    this.#setGlobal('ARGV', args)
    c._lua_rawgeti(state, REGISTRY, ref)
    if (c._lua_pcall(state, 0, 1, 0) === 0) return this.#reply(-1)
    if (c._lua_type(state, -1) !== TABLE) return new Failure(`ERR ${this.#string(-1)}`)
    const failure = this.#field('err') ?? 'unknown error'
    return new Failure(failure)
  }

  #library(name: string, functions: Readonly<Record<string, () => number>>): void {
    const { c } = this
    this.#pushString(name)
    c._lua_createtable(this.#state, 0, 4)
    for (const [key, act] of Object.entries(functions)) {
      this.#pushString(key)
      c._lua_pushcclosure(this.#state, c.addFunction(act, 'ii'), 0)
      c._lua_rawset(this.#state, -3)
    }
    c._lua_rawset(this.#state, GLOBALS)
  }

  #setGlobal(name: string, list: readonly string[]): void {
    this.#pushString(name)
    this.#pushStrings(list)
    this.c._lua_rawset(this.#state, GLOBALS)
  }

  #redisCall(raises: boolean): number {
    const { c } = this
    const count = c._lua_gettop(this.#state)
    const words: string[] = []
    for (let i = 1; i <= count; i++) words.push(this.#word(i))
    c._lua_settop(this.#state, 0)
    const reply = this.#call(words)
    if (!raises || !(reply instanceof Failure)) return this.#pushReply(reply)
    this.#pushRecord('err', reply.text)
    return c._lua_error(this.#state)
  }

  #raise(text: string): number {
    this.#pushString(text)
    return this.c._lua_error(this.#state)
  }

  /** An argument of redis.call. */
  #word(at: number): string {
    return this.c._lua_type(this.#state, at) === NUMBER
      ? decimal(this.c._lua_tonumber(this.#state, at))
      : this.#string(at)
  }

  #string(at: number): string {
    const { c } = this
    const from = c._lua_tolstring(this.#state, at, this.#length)
    const length = c.HEAPU32[this.#length >> 2]
    if (from === 0) throw new Error(`Lua: a text is expected at ${at}`)
    return this.#bytes.latin1Slice(from, from + length)
  }

  /** Puts bytes where C reads them. */
  #fill(text: string): void {
    const { c } = this
    if (text.length > this.#roomBytes) {
      if (this.#room !== 0) c._free(this.#room)
      this.#roomBytes = Math.max(4096, 2 * text.length)
      this.#room = c._malloc(this.#roomBytes)
    }
    if (text.length > 24) this.#bytes.latin1Write(text, this.#room)
    else {
      const { HEAPU8 } = c
      for (let i = 0; i < text.length; i++) HEAPU8[this.#room + i] = text.charCodeAt(i)
    }
  }

  /** The memory of Lua, which moves when it grows. */
  get #bytes(): Bytes {
    const { buffer } = this.c.HEAPU8
    if (this.#memory.buffer !== buffer) this.#memory = Buffer.from(buffer) as unknown as Bytes
    return this.#memory
  }

  #pushString(text: string): void {
    this.#fill(text)
    this.c._lua_pushlstring(this.#state, this.#room, text.length)
  }

  #pushStrings(list: readonly string[]): void {
    this.c._lua_createtable(this.#state, list.length, 0)
    for (let i = 0; i < list.length; i++) {
      this.#pushString(list[i])
      this.c._lua_rawseti(this.#state, -2, i + 1)
    }
  }

  /** { [name] = text } */
  #pushRecord(name: string, text: string): 1 {
    this.c._lua_createtable(this.#state, 0, 1)
    this.#pushString(name)
    this.#pushString(text)
    this.c._lua_rawset(this.#state, -3)
    return 1
  }

  #pushReply(reply: Reply): 1 {
    const { c } = this
    const state = this.#state
    if (typeof reply === 'number') c._lua_pushnumber(state, reply)
    else if (typeof reply === 'string') this.#pushString(reply)
    else if (reply === null) c._lua_pushboolean(state, 0)
    else if (reply instanceof Status) this.#pushRecord('ok', reply.text)
    else if (reply instanceof Failure) this.#pushRecord('err', reply.text)
    else {
      c._lua_checkstack(state, 4)
      c._lua_createtable(state, reply.length, 0)
      for (let i = 0; i < reply.length; i++) {
        this.#pushReply(reply[i])
        c._lua_rawseti(state, -2, i + 1)
      }
    }
    return 1
  }

  /** A field of the table on top. */
  #field(name: string): string | undefined {
    const { c } = this
    this.#pushString(name)
    c._lua_rawget(this.#state, -2)
    const found = c._lua_type(this.#state, -1) === STRING ? this.#string(-1) : undefined
    c._lua_settop(this.#state, -2)
    return found
  }

  /** What a script has returned, as Redis passes it on. */
  #reply(at: number): Reply {
    const { c } = this
    const state = this.#state
    const type = c._lua_type(state, at)
    if (type === NUMBER) return Math.trunc(c._lua_tonumber(state, at))
    if (type === STRING) return this.#string(at)
    if (type === BOOLEAN) return c._lua_toboolean(state, at) === 1 ? 1 : null
    if (type !== TABLE) return null
    const failure = this.#field('err')
    if (failure !== undefined) return new Failure(failure)
    const status = this.#field('ok')
    if (status !== undefined) return new Status(status)
    c._lua_checkstack(state, 4)
    const list: Reply[] = []
    for (let i = 1; ; i++) {
      c._lua_rawgeti(state, -1, i)
      if (c._lua_type(state, -1) !== NIL) list.push(this.#reply(-1))
      c._lua_settop(state, -2)
      if (list.length < i) return list
    }
  }

  /** A value of Lua, for cmsgpack. */
  #read(at: number): Packed {
    const { c } = this
    const state = this.#state
    const type = c._lua_type(state, at)
    if (type === NUMBER) return c._lua_tonumber(state, at)
    if (type === STRING) return this.#string(at)
    if (type === BOOLEAN) return c._lua_toboolean(state, at) === 1
    if (type !== TABLE) return null
    c._lua_checkstack(state, 6)
    const map = new Map<Packed, Packed>()
    c._lua_pushvalue(state, at)
    c._lua_pushnil(state)
    while (c._lua_next(state, -2) !== 0) {
      c._lua_pushvalue(state, -2)
      map.set(this.#read(-1), this.#read(-2))
      c._lua_settop(state, -3)
    }
    c._lua_settop(state, -2)
    for (let i = 1; i <= map.size; i++) if (!map.has(i)) return map
    return Array.from({ length: map.size }, (_, i) => map.get(i + 1) as Packed)
  }

  #push(value: Packed): void {
    const { c } = this
    const state = this.#state
    if (value === null) c._lua_pushnil(state)
    else if (typeof value === 'boolean') c._lua_pushboolean(state, value ? 1 : 0)
    else if (typeof value === 'number') c._lua_pushnumber(state, value)
    else if (typeof value === 'string') this.#pushString(value)
    else {
      c._lua_checkstack(state, 4)
      c._lua_createtable(state, 0, 0)
      const pairs = value instanceof Map ? value : (value as readonly Packed[]).map((one, i) => [i + 1, one] as const)
      for (const [key, one] of pairs) {
        this.#push(key)
        this.#push(one)
        c._lua_rawset(state, -3)
      }
    }
  }
}
