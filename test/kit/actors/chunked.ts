import { randomBytes } from 'node:crypto'
import { chunkBytes } from '../../../policy/objects/uploads/chunked.ts'
import type { Actor, Answer } from './api.ts'

/** Speaks the chunked routes of the blob API as one actor. */
export function chunkedAs(actor: Actor) {
  const path = '/v1/objects/chunked'
  return {
    init: (fields: Record<string, string> = {}, headers?: Record<string, string>): Promise<Answer> =>
      actor.post(`${path}?${new URLSearchParams({ filename: 'film.mp4', ...fields })}`, undefined, headers),
    part: (upload: string, part: number | string, body: RequestInit['body'], headers?: Record<string, string>) =>
      actor.request('PUT', `${path}?${new URLSearchParams({ upload, part: `${part}` })}`, {
        body,
        headers: { 'content-type': 'application/octet-stream', ...headers },
        ...(body instanceof ReadableStream && { duplex: 'half' }),
      }),
    status: (upload: string) => actor.get(`${path}?${new URLSearchParams({ upload })}`),
    open: () => actor.get(`${path}/open`),
    complete: (upload: unknown) => actor.request('PATCH', path, { body: JSON.stringify({ upload }) }),
    abort: (upload: unknown) => actor.request('DELETE', path, { body: JSON.stringify({ upload }) }),
  }
}

/** A part of the least size that a part in the middle may have. */
export const fullPart = (): Buffer<ArrayBuffer> => Buffer.from(randomBytes(chunkBytes.min))
