import { createHash, type Hash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { MiB } from '../../../../lib/bytes.ts'

/** Keys that are read at once. */
const together = 64
const pageSize = 1000
const chunkBytes = MiB
const modulus = 1n << 256n
/** First version whose hash fields expire. */
const fieldsExpireSince = 8

/** What `TYPE` and `PEXPIRETIME` answer for a key that exists and never expires. */
const never = -1

/**
 * SHA-256 in hex over all keys that never expire, whatever their order and encoding in memory, and over functions. Keys and fields that
 * expire are left out: a copy that is made later has fewer of them. No other client may write meanwhile. `version`: major version of Redis.
 */
export async function digestOf(redis: Redis, version: string): Promise<string> {
  const digest = createHash('sha256')
  add(digest, 'functions', ...flat(await call(redis, 'FUNCTION', 'LIST', 'WITHCODE')))
  const keyspace = String(await redis.call('INFO', 'keyspace'))
  for (const [, number] of keyspace.matchAll(/^db(\d+):/gm)) {
    await redis.call('SELECT', number!)
    const sum = new UniqueSum()
    await scan(redis, ['SCAN'], 1, async keys => {
      for (let at = 0; at < keys.length; at += together) {
        const digests = await Promise.all(
          keys.slice(at, at + together).map(([key]) => digestOfKey(redis, key!, version)),
        )
        for (const each of digests) if (each) sum.add(each)
      }
    })
    if (sum.count > 0) add(digest, 'database', number!, sum.text())
  }
  return digest.digest('hex')
}

/** Null for a key that expires. */
async function digestOfKey(redis: Redis, key: Buffer, version: string): Promise<Buffer | null> {
  const [type, expires] = await Promise.all([redis.call('TYPE', key), redis.call('PEXPIRETIME', key)])
  if (expires !== never) return null
  const digest = createHash('sha256')
  add(digest, key, String(type))
  const read = readers[String(type)]
  if (!read) throw new Error(`a key has the type ${type}, which cannot be compared`)
  const expired = (await read(redis, key, digest, version)) === 'expires'
  return expired ? null : digest.digest()
}

type Reader = (redis: Redis, key: Buffer, digest: Hash, version: string) => Promise<'expires' | undefined>

const readers: Record<string, Reader> = {
  async string(redis, key, digest) {
    for (let at = 0; ; at += chunkBytes) {
      const chunk = (await redis.callBuffer('GETRANGE', key, at, at + chunkBytes - 1)) as Buffer
      digest.update(chunk)
      if (chunk.length < chunkBytes) return
    }
  },

  async list(redis, key, digest) {
    for (let at = 0; ; at += pageSize) {
      const page = flat(await call(redis, 'LRANGE', key, at, at + pageSize - 1))
      add(digest, ...page)
      if (page.length < pageSize) return
    }
  },

  async set(redis, key, digest) {
    const sum = new UniqueSum()
    await scan(redis, ['SSCAN', key], 1, members => members.forEach(parts => void sum.add(digestOfParts(parts))))
    add(digest, sum.text())
  },

  async zset(redis, key, digest) {
    const sum = new UniqueSum()
    await scan(redis, ['ZSCAN', key], 2, members => members.forEach(parts => void sum.add(digestOfParts(parts))))
    add(digest, sum.text())
  },

  async hash(redis, key, digest, version) {
    const sum = new UniqueSum()
    await scan(redis, ['HSCAN', key], 2, async fields => {
      const names = fields.map(([name]) => name!)
      const expiry =
        Number(version) < fieldsExpireSince || names.length === 0
          ? []
          : ((await redis.call('HPEXPIRETIME', key, 'FIELDS', names.length, ...names)) as number[])
      fields.forEach((parts, number) => {
        if ((expiry[number] ?? never) === never) sum.add(digestOfParts(parts))
      })
    })
    // It goes with its last field.
    if (sum.count === 0) return 'expires'
    add(digest, sum.text())
  },

  async stream(redis, key, digest) {
    let from = '-'
    for (let page: unknown[]; ; ) {
      page = (await call(redis, 'XRANGE', key, from, '+', 'COUNT', pageSize)) as unknown[]
      add(digest, ...flat(page))
      const last = page.at(-1) as [Buffer] | undefined
      if (!last || page.length < pageSize) break
      from = `(${last[0]}`
    }
    const about = fieldsOf(await call(redis, 'XINFO', 'STREAM', key))
    add(digest, ...['last-generated-id', 'max-deleted-entry-id', 'entries-added'].map(name => about.get(name) ?? ''))
    const groups = (await call(redis, 'XINFO', 'GROUPS', key)) as unknown[]
    for (const group of groups.map(fieldsOf)) await addGroup(redis, key, group, digest)
  },

  async vectorset(redis, key, digest) {
    const count = Number(await redis.call('VCARD', key))
    const sum = new UniqueSum()
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
    const page = (await call(redis, 'XPENDING', key, name, from, '+', pageSize)) as Buffer[][]
    for (const [id, consumer, , deliveries] of page) add(digest, id!, consumer!, String(deliveries))
    const last = page.at(-1)
    if (!last || page.length < pageSize) return
    from = `(${last[0]}`
  }
}

/** Calls `take` with pages of what a command of the SCAN family iterates, in groups of `width` parts. Elements may come more than once. */
async function scan(
  redis: Redis,
  [name, ...args]: [string, ...Buffer[]],
  width: number,
  take: (page: Buffer[][]) => void | Promise<void>,
): Promise<void> {
  for (let cursor = '0'; ; ) {
    const [next, page] = (await call(redis, name, ...args, cursor, 'COUNT', pageSize)) as [Buffer, Buffer[]]
    const groups: Buffer[][] = []
    for (let at = 0; at < page.length; at += width) groups.push(page.slice(at, at + width))
    await take(groups)
    cursor = String(next)
    if (cursor === '0') return
  }
}

/** Adds digests whose order says nothing; one that comes again counts once. */
class UniqueSum {
  readonly #seen = new Set<string>()
  #sum = 0n

  get count(): number {
    return this.#seen.size
  }

  add(digest: Buffer): void {
    const name = digest.toString('latin1', 0, 16)
    if (this.#seen.has(name)) return
    this.#seen.add(name)
    this.#sum = (this.#sum + BigInt(`0x${digest.toString('hex')}`)) % modulus
  }

  text(): string {
    return `${this.count} ${this.#sum.toString(16)}`
  }
}

type Part = string | Buffer

/** With its length before each part, so that no other parts have the same bytes. */
function add(digest: Hash, ...parts: Part[]): void {
  for (const part of parts) digest.update(`${Buffer.byteLength(part)} `).update(part)
}

function digestOfParts(parts: Part[]): Buffer {
  const digest = createHash('sha256')
  add(digest, ...parts)
  return digest.digest()
}

const call = (redis: Redis, name: string, ...args: (string | Buffer | number)[]): Promise<unknown> =>
  redis.callBuffer(name, ...args)

/** A nested answer as a list of parts, with the number of parts before those of each list. */
function flat(answer: unknown): Part[] {
  if (!Array.isArray(answer)) return [answer === null ? 'none' : Buffer.isBuffer(answer) ? answer : String(answer)]
  return [String(answer.length), ...answer.flatMap(flat)]
}

/** An answer of names and values in turn. */
function fieldsOf(answer: unknown): Map<string, Buffer> {
  const list = answer as unknown[]
  const fields = new Map<string, Buffer>()
  for (let at = 0; at + 1 < list.length; at += 2) {
    const value = list[at + 1]
    fields.set(String(list[at]), Buffer.isBuffer(value) ? value : Buffer.from(String(value)))
  }
  return fields
}
