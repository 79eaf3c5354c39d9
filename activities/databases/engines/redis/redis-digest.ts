import { createHash, type Hash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { MiB } from '../../../../lib/bytes.ts'
import { demandFew } from '../read-limits.ts'
import { boundReplies, call, fieldsOf, flat, hasCommand, inFixedOrder, scan } from './redis-replies.ts'
import { add, type DigestLimits, digestOfParts, inPasses, type Part, UniqueSum } from './redis-sums.ts'

/** Keys that are read together, if they are small: the host holds what it has read of all databases in its own memory. */
const together = 64
const smallBytes = 128 * 1024
const maxPage = 1000
const chunkBytes = MiB

/** What `TYPE` and `PEXPIRETIME` answer for a key that exists and never expires. */
const never = -1

/** The largest element has 512 MB, which customers cannot change. */
const usualLimits: DigestLimits = { maxElements: 1_000_000, pageBytes: 8 * MiB, names: 100_000, replyBytes: 640 * MiB }

/**
 * SHA-256 in hex over all keys that never expire, whatever their order and encoding in memory, and over functions. Keys and fields that
 * expire are left out: a copy that is made later has fewer of them. No other client may write meanwhile. Rejects with
 * DumpPrevented for what cannot be read in parts and is larger than the limits: this process reads the databases of all accounts.
 */
export async function redisDigestOf(redis: Redis, some: Partial<DigestLimits> = {}): Promise<string> {
  const limits = { ...usualLimits, ...some }
  boundReplies(redis, limits.replyBytes)
  const digest = createHash('sha256')
  const memory = String(await redis.call('INFO', 'memory'))
  demandFew('functions', /^number_of_functions:(\d+)/m.exec(memory)?.[1], limits.names)
  add(digest, 'functions', ...flat(inFixedOrder(await call(redis, 'FUNCTION', 'LIST', 'WITHCODE'))))
  const fieldsExpire = await hasCommand(redis, 'HPEXPIRETIME')
  const keyspace = String(await redis.call('INFO', 'keyspace'))
  for (const [, number] of keyspace.matchAll(/^db(\d+):/gm)) {
    await redis.call('SELECT', number!)
    const keys = Number(await redis.call('DBSIZE'))
    const sum = await inPasses(keys, limits, async sum => {
      await scan(redis, ['SCAN'], { width: 1, page: maxPage }, async page => {
        const own = page.map(([key]) => key!).filter(key => sum.takes(digestOfParts([key])))
        for (let at = 0; at < own.length; at += together)
          for (const each of await digestsOf(redis, own.slice(at, at + together), fieldsExpire, limits)) sum.add(each)
      })
    })
    if (sum.count > 0) add(digest, 'database', number!, sum.text())
  }
  return digest.digest('hex')
}

/** Of keys that never expire: the small ones are read together, each large one alone. */
async function digestsOf(
  redis: Redis,
  names: Buffer[],
  fieldsExpire: boolean,
  limits: DigestLimits,
): Promise<Buffer[]> {
  const keys = await Promise.all(names.map(name => readKey(redis, name, limits)))
  const small = keys.filter(key => key.bytes <= smallBytes)
  const digests = await Promise.all(small.map(key => digestOfKey(redis, key, fieldsExpire)))
  for (const key of keys) if (key.bytes > smallBytes) digests.push(await digestOfKey(redis, key, fieldsExpire))
  return digests.filter(digest => digest !== null)
}

interface Key {
  name: Buffer
  type: string
  expires: boolean
  /** Memory that the engine has for it. */
  bytes: number
  /** Elements to read per command. */
  page: number
  limits: DigestLimits
}

const lengths: Record<string, string> = { list: 'LLEN', set: 'SCARD', zset: 'ZCARD', hash: 'HLEN', stream: 'XLEN' }

async function readKey(redis: Redis, name: Buffer, limits: DigestLimits): Promise<Key> {
  const [type, expires, memory] = await Promise.all([
    redis.call('TYPE', name).then(String),
    redis.call('PEXPIRETIME', name),
    call(redis, 'MEMORY', 'USAGE', name, 'SAMPLES', 0).then(Number),
  ])
  const length = lengths[type]
  const elements = length && memory > smallBytes ? Number(await redis.call(length, name)) : 1
  const page = memory > smallBytes ? Math.floor((limits.pageBytes * elements) / memory) : maxPage
  const bounded = Math.min(maxPage, Math.max(1, page))
  return { name, type, expires: expires !== never, bytes: memory, page: bounded, limits }
}

/** Null for a key that expires. */
async function digestOfKey(redis: Redis, key: Key, fieldsExpire: boolean): Promise<Buffer | null> {
  const { name, type } = key
  if (key.expires) return null
  const digest = createHash('sha256')
  add(digest, name, type)
  const read = readers[type]
  if (!read) throw new Error(`a key has the type ${type}, which cannot be compared`)
  const expired = (await read(redis, key, digest, fieldsExpire)) === 'expires'
  return expired ? null : digest.digest()
}

type Reader = (redis: Redis, key: Key, digest: Hash, fieldsExpire: boolean) => Promise<'expires' | undefined>

/** Reads what has no order: its elements have `width` parts each. */
const unordered =
  (count: string, command: string, width: number): Reader =>
  async (redis, { name: key, page, limits }, digest) => {
    const sum = await inPasses(Number(await redis.call(count, key)), limits, sum =>
      scan(redis, [command, key], { width, page }, each => each.forEach(parts => void sum.offer(digestOfParts(parts)))),
    )
    add(digest, sum.text())
    return undefined
  }

const readers: Record<string, Reader> = {
  async string(redis, { name: key }, digest) {
    for (let at = 0; ; at += chunkBytes) {
      const chunk = (await redis.callBuffer('GETRANGE', key, at, at + chunkBytes - 1)) as Buffer
      digest.update(chunk)
      if (chunk.length < chunkBytes) return
    }
  },

  async list(redis, { name: key, page }, digest) {
    await inBlocks(digest, Number(await redis.call('LLEN', key)), page, async (at, count) =>
      flat(await call(redis, 'LRANGE', key, at, at + count - 1)),
    )
  },

  set: unordered('SCARD', 'SSCAN', 1),

  zset: unordered('ZCARD', 'ZSCAN', 2),

  async hash(redis, { name: key, page, limits }, digest, fieldsExpire) {
    const sum = await inPasses(Number(await redis.call('HLEN', key)), limits, sum =>
      scan(redis, ['HSCAN', key], { width: 2, page }, async fields => {
        const names = fields.map(([name]) => name!)
        const expiry =
          !fieldsExpire || names.length === 0
            ? []
            : ((await redis.call('HPEXPIRETIME', key, 'FIELDS', names.length, ...names)) as number[])
        fields.forEach((parts, number) => {
          if ((expiry[number] ?? never) === never) sum.offer(digestOfParts(parts))
        })
      }),
    )
    // It goes with its last field.
    if (sum.count === 0) return 'expires'
    add(digest, sum.text())
  },

  async stream(redis, { name: key, page, limits }, digest) {
    let from = '-'
    await inBlocks(digest, Number(await redis.call('XLEN', key)), page, async (_at, count) => {
      const entries = (await call(redis, 'XRANGE', key, from, '+', 'COUNT', count)) as [Buffer][]
      from = `(${entries.at(-1)?.[0]}`
      return flat(entries)
    })
    const about = fieldsOf(await call(redis, 'XINFO', 'STREAM', key))
    add(digest, ...['last-generated-id', 'max-deleted-entry-id', 'entries-added'].map(name => about.get(name) ?? ''))
    demandFew('groups of a stream', about.get('groups'), limits.names)
    const groups = (await call(redis, 'XINFO', 'GROUPS', key)) as unknown[]
    for (const group of groups.map(fieldsOf)) {
      demandFew('consumers of a group', group.get('consumers'), limits.names)
      await addGroup(redis, key, group, digest)
    }
  },

  async vectorset(redis, { name: key, limits }, digest) {
    const count = Number(await redis.call('VCARD', key))
    demandFew('elements of a vector set', count, limits.maxElements)
    const sum = new UniqueSum(1)
    for (const element of flat(await call(redis, 'VRANDMEMBER', key, count))) {
      const facts = [await call(redis, 'VEMB', key, element, 'RAW'), await call(redis, 'VGETATTR', key, element)]
      sum.add(digestOfParts([element, ...flat(facts)]))
    }
    add(digest, sum.text())
  },
}

/** A group of a stream with what its consumers have not acknowledged; for how long they are idle is left out. */
async function addGroup(redis: Redis, key: Buffer, group: Map<string, Buffer>, digest: Hash): Promise<void> {
  const name = group.get('name')!
  add(digest, 'group', name, group.get('last-delivered-id') ?? '', group.get('entries-read') ?? '')
  const consumers = (await call(redis, 'XINFO', 'CONSUMERS', key, name)) as unknown[]
  const names = consumers.map(consumer => fieldsOf(consumer).get('name')!.toString('latin1'))
  add(digest, ...names.sort())
  for (let from = '-'; ; ) {
    const page = (await call(redis, 'XPENDING', key, name, from, '+', maxPage)) as Buffer[][]
    for (const [id, consumer, , deliveries] of page) add(digest, id!, consumer!, String(deliveries))
    const last = page.at(-1)
    if (!last || page.length < maxPage) return
    from = `(${last[0]}`
  }
}

/**
 * Adds elements in their order, read in parts that memory allows. Before each 1000 of them is their number, and at the end one below 1000:
 * the digest does not depend on how many were read together.
 */
async function inBlocks(
  digest: Hash,
  length: number,
  page: number,
  read: (at: number, count: number) => Promise<Part[]>,
): Promise<void> {
  for (let block = 0; ; block += maxPage) {
    const end = Math.min(length, block + maxPage)
    add(digest, String(end - block))
    for (let at = block; at < end; at += page) {
      const [, ...elements] = await read(at, Math.min(page, end - at))
      for (const element of elements) add(digest, element)
    }
    if (end < block + maxPage) return
  }
}
