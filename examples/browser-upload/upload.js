// Uploads a File into blob storage with an upload token. No dependencies; copy it into your own page.

const MB = 1024 * 1024
const singleBytes = 16 * MB // larger files go in parts, so that a lost connection costs a part and not the file
const atOnce = 3
const tries = 4
const perMinute = 50 // a token makes 60 requests a minute, and pauses for five minutes past them

export class UploadError extends Error {
  constructor({ code, message }) {
    super(message)
    this.code = code
  }
}

/**
 * Resolves to what the platform says of the file: `id`, `url` and `size` at least. `onProgress` is told the share that has
 * arrived, 0 to 1; an aborted `signal` leaves nothing behind. Rejects with an UploadError.
 */
export async function upload(file, { blobUrl, token, onProgress = () => {}, signal }) {
  const ask = requester(blobUrl, token, signal)
  if (file.size > singleBytes) return inParts(file, ask, onProgress)
  const form = new FormData()
  form.append('file', file, file.name)
  return ask('POST', '/v1/objects', { body: form, onSent: sent => onProgress(Math.min(1, sent / file.size)) })
}

async function inParts(file, ask, onProgress) {
  const path = '/v1/objects/chunked'
  const init = await ask('POST', `${path}?${new URLSearchParams({ filename: file.name, mime_type: file.type })}`)
  const { upload, chunk } = init
  // About 40 parts, so that their requests fit into a minute, within what the platform takes.
  const size = Math.min(chunk.max_size, Math.max(chunk.min_size, Math.ceil(file.size / 40)))
  const sent = []
  const count = Math.ceil(file.size / size)
  let next = 1
  const sendParts = async () => {
    while (next <= count) {
      const part = next++
      const body = file.slice((part - 1) * size, part * size)
      const onSent = bytes => {
        sent[part] = Math.min(bytes, body.size)
        onProgress(sent.reduce((sum, n) => sum + n, 0) / file.size)
      }
      await ask('PUT', `${path}?${new URLSearchParams({ upload, part })}`, { body, onSent })
    }
  }
  try {
    await Promise.all(Array.from({ length: atOnce }, sendParts))
    return await ask('PATCH', path, { body: JSON.stringify({ upload }) })
  } catch (error) {
    next = Infinity
    await ask('DELETE', path, { body: JSON.stringify({ upload }), evenIfAborted: true }).catch(() => {})
    throw error
  }
}

/** Requests of one token: not too many a minute, and tried again when the platform or the connection is busy. */
function requester(blobUrl, token, signal) {
  const begun = []
  const turn = async () => {
    for (;;) {
      const wait = begun.length < perMinute ? 0 : begun.at(-perMinute) + 60_000 - Date.now()
      if (wait <= 0) return begun.push(Date.now())
      await pause(wait)
    }
  }
  return async (method, path, options = {}) => {
    for (let n = 1; ; n++) {
      await turn()
      const answer = await request(method, blobUrl + path, token, options.evenIfAborted ? undefined : signal, options)
      if (answer.status >= 200 && answer.status < 300) return answer.body.response
      const passing = answer.status === 0 || answer.status === 429 || answer.status >= 500
      if (!passing || n === tries || signal?.aborted) throw new UploadError(answer.body)
      await pause(Math.max(answer.retryAfter, n) * 1000)
    }
  }
}

/** XMLHttpRequest, because it tells how much of a body has left. */
function request(method, url, token, signal, { body, onSent }) {
  return new Promise(resolve => {
    const xhr = new XMLHttpRequest()
    const ended = (code, message) => resolve({ status: 0, retryAfter: 0, body: { code, message } })
    xhr.open(method, url)
    xhr.responseType = 'json'
    xhr.setRequestHeader('Authorization', token)
    if (body instanceof Blob) xhr.setRequestHeader('Content-Type', 'application/octet-stream')
    if (onSent) xhr.upload.onprogress = event => onSent(event.loaded)
    xhr.onload = () => {
      const retryAfter = Number(xhr.getResponseHeader('Retry-After')) || 0
      resolve({
        status: xhr.status,
        retryAfter,
        body: xhr.response ?? { code: 'NO_ANSWER', message: 'No answer came.' },
      })
    }
    xhr.onerror = () => ended('CONNECTION_LOST', 'The connection was lost.')
    xhr.onabort = () => ended('CANCELLED', 'The upload was cancelled.')
    if (signal?.aborted) return ended('CANCELLED', 'The upload was cancelled.')
    signal?.addEventListener('abort', () => xhr.abort(), { once: true })
    xhr.send(body)
  })
}

const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))
