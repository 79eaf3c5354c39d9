import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { foldUsage } from '../../db/blob-usage.ts'
import { type Db, transaction } from '../../db/database.ts'
import { changeObject, copyObject, moveObject } from '../../db/object-changes.ts'
import { putObject } from '../../db/object-puts.ts'
import { removeExpired, removeObjects } from '../../db/objects.ts'
import * as segments from '../../db/segments.ts'
import { abortUpload, completeUpload, reclaimUpload } from '../../db/upload-ends.ts'
import { storePart } from '../../db/upload-parts.ts'
import { openUpload } from '../../db/uploads.ts'
import { ApiError } from '../../policy/errors.ts'
import { newId } from '../../policy/ids.ts'
import type { Bucket, ObjectName } from '../../policy/object-names.ts'
import { type Act, explain, type Model, type Told } from './object-model.ts'
import { keptBy } from './object-state.ts'

/** Few names, so that everything meets. */
const names = ['public a', 'public b', 'private a', 'private b', 'legacy a']
const long = new Date(0)

/** Repeats itself from its seed: numbers from 0 up to, not with, a bound. */
export function dice(seed: number): (below: number) => number {
  let state = seed >>> 0
  return below => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** One account on which schedules are run: acts that are done at once, whose outcome must be that of some order of them. */
export class Schedules {
  readonly #db: Db
  readonly #ownerId: string
  readonly #roll: (below: number) => number
  #model: Model = { objects: {}, uploads: {} }
  #births = new Set<string>()
  /** Every body that was drawn and not swept. */
  #segments = new Set<string>()
  #n = 0

  constructor(db: Db, ownerId: string, seed: number) {
    this.#db = db
    this.#ownerId = ownerId
    this.#roll = dice(seed)
  }

  /** Runs one schedule. Throws an Error that tells it whole when no order explains what came of it, or something is lost or leaked. */
  async run(): Promise<void> {
    const acts = await this.#draw()
    const before = structuredClone(this.#model)
    const told = await Promise.all(acts.map(act => this.#told(act)))
    const kept = await keptBy(this.#db, this.#ownerId, [...this.#segments])
    const births = Object.values(kept.objects).map(object => object.birth)
    for (const object of Object.values(kept.objects)) if (!this.#births.has(object.birth)) object.birth = 'new'
    const { objects, uploads } = kept
    const after = explain(before, told, model => isDeepStrictEqual(model, { objects, uploads }))
    const wrong = kept.wrong.length > 0 || new Set(births).size < births.length
    if (!after || wrong) throw new Error(JSON.stringify({ before, told, kept }, null, 1))
    Object.values(objects).forEach((object, n) => {
      object.birth = births[n]!
      this.#births.add(object.birth)
    })
    this.#model = { objects, uploads }
    this.#segments = new Set(kept.segments)
  }

  /** Removes everything, sweeps, and says what is left of it: nothing, or something has leaked. */
  async end(): Promise<string[]> {
    for (const upload of Object.keys(this.#model.uploads)) await this.#do({ kind: 'abort', upload })
    await this.#do({ kind: 'tidy', names })
    await this.#do({ kind: 'remove', names })
    await this.#do({ kind: 'sweep' })
    const { objects, uploads, segments, wrong } = await keptBy(this.#db, this.#ownerId, [...this.#segments])
    return [...Object.keys(objects), ...Object.keys(uploads), ...segments, ...wrong]
  }

  /** Two to four acts; their bodies are drawn before, as an upload draws its own. */
  async #draw(): Promise<Act[]> {
    if (Object.keys(this.#model.uploads).length < 2) await this.#open()
    const kinds = Array.from({ length: 2 + this.#roll(3) }, () => this.#pick(table))
    const acts = kinds.map(kind => this.#act(kind))
    const fresh = acts.flatMap(act => ('segment' in act ? [act.segment] : []))
    const drawn = acts.flatMap(act => ('segment' in act && !(act.kind === 'put' && act.beside) ? [act.segment] : []))
    await this.#db.raw('insert into segments (id) select unnest(?::text[])', [drawn])
    for (const id of fresh) this.#segments.add(id)
    return acts
  }

  #act(kind: Act['kind']): Act {
    const name = this.#pick(names)
    const overwrite = this.#roll(2) === 0
    const upload = this.#pick(Object.keys(this.#model.uploads))
    switch (kind) {
      case 'put':
        return { kind, name, overwrite, segment: newId(), beside: this.#roll(2) === 0 }
      case 'remove':
      case 'tidy':
        return { kind, names: this.#roll(2) === 0 ? [name] : names.filter(() => this.#roll(2) === 0) }
      case 'move':
      case 'copy':
        return { kind, from: name, to: this.#pick(names.filter(other => other !== name)), overwrite }
      case 'expire':
        return { kind, name }
      case 'header':
        return { kind, name, header: `${this.#n++}` }
      case 'part':
        return { kind, upload, part: 1 + this.#roll(3), segment: newId() }
      case 'complete':
      case 'abort':
      case 'reclaim':
        return { kind, upload }
      default:
        return { kind }
    }
  }

  async #open(): Promise<void> {
    const [name, overwrite] = [this.#pick(names), this.#roll(2) === 0]
    const object = {
      content_type: 'x',
      cache_control: null,
      content_disposition: null,
      original_name: null,
      metadata: {},
    }
    const rest = { overwrite, expires_at: null, max_parts: 9, max_bytes: 1e9, upload_token_id: null }
    const { ownerId, ...at } = this.#name(name)
    const id = await transaction(this.#db, trx => openUpload(trx, { owner_id: ownerId, ...at, ...object, ...rest }, 9))
    this.#model.uploads[id!] = { name, overwrite, parts: {} }
  }

  async #told(act: Act): Promise<Told> {
    if (this.#roll(2) === 0) await sleep(this.#roll(3))
    try {
      return { act, outcome: await this.#do(act) }
    } catch (error) {
      if (error instanceof ApiError) return { act, outcome: error.code }
      throw error
    }
  }

  async #do(act: Act): Promise<string> {
    const db = this.#db
    switch (act.kind) {
      case 'put': {
        const object = { ...this.#name(act.name), contentType: 'x', etag: act.segment }
        const body = bodyOf(act.segment)
        const bytes = act.beside ? Buffer.alloc(body.size) : undefined
        const part = { segmentId: act.segment, length: body.size, body, bytes }
        return (await putObject(db, object, part, act)).replaced ? 'replaced' : 'stored'
      }
      case 'part': {
        const part = { uploadId: act.upload, part: act.part, segmentId: act.segment, body: bodyOf(act.segment) }
        return transaction(db, trx => storePart(trx, part))
      }
      case 'sweep':
        for (const id of this.#segments) if (await segments.condemn(db, id)) await segments.forget(db, id)
        return 'done'
      default:
        return transaction(db, trx => this.#change(trx, act))
    }
  }

  async #change(trx: Db, act: Act): Promise<string> {
    const stored = (one: { replaced: boolean } | undefined, none: string): string =>
      one ? (one.replaced ? 'replaced' : 'stored') : none
    const upload = 'upload' in act ? { id: act.upload, ownerId: this.#ownerId } : { id: '', ownerId: '' }
    switch (act.kind) {
      case 'remove':
      case 'tidy': {
        const at = act.names.map(name => this.#name(name))
        const gone = await (act.kind === 'remove' ? removeObjects(trx, at) : removeExpired(trx, at))
        return `gone ${gone.map(row => `${row.bucket} ${row.key}`).sort()}`
      }
      case 'move':
        return stored(await moveObject(trx, this.#name(act.from), this.#name(act.to), act), 'none')
      case 'copy':
        return stored(await copyObject(trx, this.#name(act.from), this.#name(act.to), act), 'none')
      case 'expire':
        return (await changeObject(trx, this.#name(act.name), { expiresAt: long })) ? 'changed' : 'none'
      case 'header':
        return (await changeObject(trx, this.#name(act.name), { cacheControl: act.header })) ? 'changed' : 'none'
      case 'complete':
        return stored(await completeUpload(trx, upload, { choose: notNone }), 'over')
      case 'abort':
        await abortUpload(trx, upload)
        return 'done'
      case 'reclaim':
        return (await reclaimUpload(trx, act.upload, -60)) ? 'ended' : 'over'
      default:
        await foldUsage(trx, this.#ownerId)
        return 'done'
    }
  }

  #name(text: string): ObjectName {
    const [bucket, key] = text.split(' ') as [Bucket, string]
    return { ownerId: this.#ownerId, bucket, key }
  }

  #pick<T>(list: readonly T[]): T {
    return list[this.#roll(list.length)]!
  }
}

/** How often each act is drawn. */
const table: Act['kind'][] = (
  'put put put put remove remove move move move copy copy expire tidy header part part part complete complete complete abort reclaim ' +
  'sweep fold'
).split(' ') as Act['kind'][]

/** Sizes differ, so that a sum says what is in it. */
const bodyOf = (id: string) => ({
  size: 1 + (Number.parseInt(id.slice(0, 6), 16) % 9999),
  sha256: id,
  md5: id,
  crc32: 7,
})

function notNone<T>(parts: readonly T[]): readonly T[] {
  if (parts.length === 0) throw new ApiError('NO_CHUNKS_UPLOADED')
  return parts
}
