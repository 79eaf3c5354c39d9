import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createKey, createUser } from '../../db/accounts/accounts.ts'
import { openDatabase } from '../../db/database.ts'
import { KiB } from '../../lib/bytes.ts'
import type { Bucket } from './s3-requests.ts'
import { type Rival, seedFiles, startRival } from './s3-rivals.ts'
import type { Sides } from './sides.ts'

/** Every list is of a bucket of its own, so that it has exactly those keys. */
export type Place = 'work' | 'few' | 'many'
const places: readonly Place[] = ['work', 'few', 'many']

/** A server that is measured. */
export interface Side {
  name: string
  /** What it has synced when it answers an upload, and what its memory counts. */
  about: string
  /** Its first processes, whose descendants are its own as well. */
  pids: number[]
  /** To be ended by the caller; none of Berth, which ends with the rest of a bench. */
  child?: ChildProcess
  buckets: Partial<Record<Place, Bucket>>
  /** Why `many` is missing. */
  unseeded?: string
}

/** Berth's API process and its Postgres: an account for each place. The bucket has `many` objects, 0 for none. */
export async function berthSide({ databaseUrl, folder, masterKey, berth }: Sides, many: number): Promise<Side> {
  const keys = await seedAccounts(databaseUrl, masterKey, many)
  const api = await berth()
  const bucketOf = async (place: Place): Promise<Bucket> => {
    const answer = await fetch(`${api.blobUrl}/v1/s3/credentials`, { headers: { Authorization: keys[place] } })
    if (!answer.ok) throw new Error(`GET /v1/s3/credentials answered ${answer.status} ${await answer.text()}`)
    const { response: pair } = (await answer.json()) as { response: Record<string, string> }
    return {
      url: `http://127.0.0.1:${new URL(pair.endpoint!).port}`,
      name: 'private',
      region: pair.region!,
      accessKeyId: pair.access_key_id!,
      secretAccessKey: pair.secret_access_key!,
    }
  }
  const [postmaster] = readFileSync(`${folder}/postgres/postmaster.pid`, 'utf8').split('\n')
  return {
    name: 'Berth',
    about: 'contents and names: every file and its folder, and the commit of its row. An API process and a Postgres',
    pids: [api.child.pid!, Number(postmaster)],
    buckets: {
      work: await bucketOf('work'),
      few: await bucketOf('few'),
      ...(many > 0 ? { many: await bucketOf('many') } : {}),
    },
  }
}

/** A rival with the buckets of its places, which the caller creates. A folder of `many` files is filled for `seconds` at most. */
export async function rivalSide(
  rival: Rival,
  folder: string,
  { create, many, seconds }: { create(bucket: Bucket): Promise<unknown>; many: number; seconds: number },
): Promise<Side> {
  const { child, url } = await startRival(rival, folder)
  const side: Side = {
    name: rival.name,
    about: `${rival.syncs}. ${rival.version}`,
    pids: [child.pid!],
    child,
    buckets: {},
  }
  try {
    const [accessKeyId, secretAccessKey] = rival.pair
    for (const place of places) {
      if (place === 'many' && many === 0) continue
      const bucket = { url, name: `bench-${place}`, region: 'us-east-1', accessKeyId, secretAccessKey }
      await create(bucket)
      if (place === 'many') side.unseeded = seedFiles(rival, `${folder}/${bucket.name}`, many, seconds)
      if (place !== 'many' || !side.unseeded) side.buckets[place] = bucket
    }
    return side
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
}

/** Accounts that include enough; resolves to a key of each. */
async function seedAccounts(databaseUrl: string, masterKey: string, many: number): Promise<Record<Place, string>> {
  const db = openDatabase({ url: databaseUrl, pool: 1, statementTimeoutMs: 300_000 })
  const keys = {} as Record<Place, string>
  for (const place of places) {
    const user = await createUser(db, { name: place, email: `${place}@example.org`, plan: 'enterprise-32' })
    keys[place] = (await createKey(db, masterKey, { userId: user.id })).key
    if (place === 'many')
      await db.raw(
        `insert into objects (owner_id, bucket, key, generation, birth, size, content_type, etag)
         select ?, 'private', 'folder' || n % 1000 || '/file' || n || '.txt', 'g' || n, 'b', 1, 'text/plain', md5(n::text)
           from generate_series(1, ?::integer) n`,
        [user.id, many],
      )
  }
  await db.raw('vacuum analyze objects')
  // What this wrote is not left to be synced while something is measured.
  await db.raw('checkpoint')
  await db.destroy()
  return keys
}

/** Bytes at their highest, all processes of a server added at one moment. */
export interface Peak {
  resident: number
  /** Pages of shared memory, which every process of a Postgres has among its own, counted once. */
  sharedOnce: number
}

/** Watches the processes of sides until it is ended, which gives the peaks by the names of sides. */
export function watchMemory(sides: readonly Side[]): () => ReadonlyMap<string, Peak> {
  const peaks = new Map(sides.map(({ name }) => [name, { resident: 0, sharedOnce: 0 }]))
  const timer = setInterval(() => {
    for (const { name, pids } of sides) {
      const sizes = pids.flatMap(withDescendants).map(sizeOf)
      const sum = (of: 'resident' | 'shared') => sizes.reduce((all, size) => all + size[of], 0)
      const once = sum('resident') - sum('shared') + Math.max(...sizes.map(size => size.shared))
      const peak = peaks.get(name)!
      peak.resident = Math.max(peak.resident, sum('resident'))
      peak.sharedOnce = Math.max(peak.sharedOnce, once)
    }
  }, 250)
  return () => {
    clearInterval(timer)
    return peaks
  }
}

function withDescendants(pid: number): number[] {
  // The first thread forks, in Node and in Postgres; the Go servers have no children.
  const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').map(Number).filter(Boolean)
  return [pid, ...children.flatMap(withDescendants)]
}

function sizeOf(pid: number): { resident: number; shared: number } {
  const status = read(`/proc/${pid}/status`)
  const bytes = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) * KiB
  return { resident: bytes('VmRSS'), shared: bytes('RssShmem') }
}

/** Nothing of a process that has ended meanwhile. */
function read(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
