import { createHash, randomBytes, randomInt } from 'node:crypto'
import type { Actor } from '../actors/api.ts'
import { fullPart } from '../actors/chunked.ts'
import { elementOf, type WireAnswer } from '../s3/wire.ts'
import { Answered } from './answered.ts'
import { etagIn, type S3At, s3At } from './s3-commands.ts'

/** What is answered for, and counted. */
export const s3Kinds = ['S3 objects', 'S3 copies', 'S3 deletions', 'S3 parts', 'S3 completions'] as const

type Parts = ReadonlyMap<number, Buffer>

/** An upload and the key that it is for. */
interface Upload {
  key: string
  id: string
}

const md5 = (bytes: Buffer): Buffer => createHash('md5').update(bytes).digest()

/** What clients of the gateway do concurrently, and the answers that they got. */
export class S3Load {
  #at!: S3At
  readonly objects = new Answered<Buffer>()
  /** By key and id. */
  readonly uploads = new Answered<Parts>()
  /** What completions have answered since the last check. */
  readonly completed = new Map<string, Parts>()
  #round = 0

  /** `count` counts what was answered as done. */
  constructor(readonly count: (kind: (typeof s3Kinds)[number]) => void) {}

  async at(blob: Actor, url: string): Promise<void> {
    this.#at = await s3At(blob, url)
  }

  /** One act of each client. */
  get clients(): (() => Promise<unknown>)[] {
    return [
      () => this.#change(randomInt(1, 8000), 'small'),
      () => this.#change(randomInt(100_000, 2_000_000), 'large'),
      () => this.#inParts(),
    ]
  }

  async #change(bytes: number, kind: string): Promise<void> {
    const number = ++this.#round
    const names = this.objects.names().filter(name => name.startsWith(kind))
    const old = names[randomInt(names.length + 1)]
    const content = old && this.objects.last(old)
    if (content && number % 5 === 0)
      return this.objects.change(old, null, async () => this.#done('S3 deletions', await this.send('DELETE', old)))
    if (content && number % 5 === 1)
      return this.objects.change(`${kind}-${number}`, content, async () => {
        const headers = { 'x-amz-copy-source': `/private/load/${old}` }
        return this.#done('S3 copies', await this.send('PUT', `${kind}-${number}`, { headers }))
      })
    const body = randomBytes(bytes)
    const key = old && number % 3 === 0 ? old : `${kind}-${number}`
    await this.objects.change(key, body, async () => this.#done('S3 objects', await this.send('PUT', key, { body })))
  }

  async #inParts(): Promise<void> {
    const key = `parts-${++this.#round}`
    const id = elementOf(await this.send('POST', `${key}?uploads=`), 'UploadId')
    if (!id) return
    const upload = `${key} ${id}`
    let parts: Parts = new Map()
    this.uploads.settle(upload, parts)
    for (const [number, body] of [fullPart(), randomBytes(70_000)].entries()) {
      const more = new Map([...parts, [number + 1, body]])
      await this.uploads.change(upload, more, async () => {
        const target = `${key}?partNumber=${number + 1}&uploadId=${id}`
        const isDone = this.#done('S3 parts', await this.send('PUT', target, { body }))
        if (isDone) parts = more
        return isDone
      })
    }
    if (parts.size === 0) return
    await this.uploads.change(upload, null, async () => {
      await this.objects.change(key, Buffer.concat([...parts.values()]), async () => {
        const isDone = this.#done('S3 completions', await this.complete({ key, id }, parts))
        if (isDone) this.completed.set(upload, parts)
        return isDone
      })
      return this.completed.has(upload)
    })
  }

  complete({ key, id }: Upload, parts: Parts): Promise<WireAnswer> {
    const listed = [...parts].map(
      ([part, body]) => `<Part><PartNumber>${part}</PartNumber><ETag>${md5(body).toString('hex')}</ETag></Part>`,
    )
    const body = `<CompleteMultipartUpload>${listed.join('')}</CompleteMultipartUpload>`
    return this.send('POST', `${key}?uploadId=${id}`, { body })
  }

  send(method: string, target: string, init?: { headers?: Record<string, string>; body?: string | Buffer }) {
    return this.#at.wire.send(method, `/private/load/${target}`, init)
  }

  #done(kind: (typeof s3Kinds)[number], { status }: WireAnswer): boolean {
    const isDone = status < 300
    if (isDone) this.count(kind)
    return isDone
  }
}

const uploadOf = (name: string): Upload => {
  const [key, id] = name.split(' ') as [string, string]
  return { key, id }
}

/** Says what was answered by the gateway and is not so. Parts are there when the upload can be completed from them. */
export async function checkS3(load: S3Load, say: (what: string) => void): Promise<void> {
  for (const name of load.uploads.names()) {
    const upload = uploadOf(name)
    const { status, text } = await load.send('GET', `${upload.key}?uploadId=${upload.id}`)
    const numbers = [...text.matchAll(/<PartNumber>(\d+)</g)].map(([, number]) => Number(number))
    const seen = status === 404 ? null : new Map(numbers.map(part => [part, Buffer.alloc(0)]))
    if (
      status >= 500 ||
      !load.uploads.allows(name, seen, (one, other) => `${[...one.keys()]}` === `${[...other.keys()]}`)
    )
      say(`S3 upload ${name}: ${status}, parts ${numbers}, not ${[...(load.uploads.last(name)?.keys() ?? [])]}`)
    const sent = load.uploads.last(name)
    if (seen?.size && sent?.size === seen.size) {
      const completion = await load.complete(upload, sent)
      if (completion.status !== 200) say(`S3 upload ${name}: ${completion.text}`)
      load.objects.settle(upload.key, Buffer.concat([...sent.values()]))
    } else if (seen) await load.send('DELETE', `${upload.key}?uploadId=${upload.id}`)
    load.uploads.settle(name, null)
  }
  for (const [name, parts] of load.completed) {
    const again = await load.complete(uploadOf(name), parts)
    const etag = `${md5(Buffer.concat([...parts.values()].map(md5))).toString('hex')}-${parts.size}`
    if (again.status !== 200 || etagIn(again) !== etag) say(`S3 completion ${name}, repeated: ${again.text}`)
  }
  load.completed.clear()
  for (const key of load.objects.names()) {
    const { status, bytes } = await load.send('GET', key)
    const seen = status === 404 ? null : bytes
    if (status < 500 && load.objects.allows(key, seen, (one, other) => one.equals(other)))
      load.objects.settle(key, seen)
    else say(`S3 object ${key}: ${status}, ${bytes.length} bytes, not ${load.objects.last(key)?.length}`)
  }
}
