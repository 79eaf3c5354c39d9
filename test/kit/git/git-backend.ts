import { spawn } from 'node:child_process'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { createGunzip } from 'node:zlib'

/** Git's own server for one request, as any web server runs it (CGI). Resolves when the answer is complete. */
export async function serveGit(root: string, request: IncomingMessage, answer: ServerResponse, bytesPerSecond: number) {
  const url = new URL(request.url ?? '/', 'http://git')
  const backend = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_PROTOCOL: request.headers['git-protocol']?.toString() ?? '',
      REMOTE_USER: 'pusher',
      REMOTE_ADDR: '127.0.0.1',
      REQUEST_METHOD: request.method,
      PATH_INFO: decodeURIComponent(url.pathname),
      QUERY_STRING: url.search.slice(1),
      CONTENT_TYPE: request.headers['content-type'] ?? '',
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const ended = new Promise<void>(resolve => backend.once('exit', () => resolve()))
  answer.once('close', () => backend.kill('SIGKILL'))
  const body = request.headers['content-encoding'] === 'gzip' ? request.pipe(createGunzip()) : request
  pipeline(body, backend.stdin).catch(() => {})
  const slowly = bytesPerSecond > 0 ? [throttle(bytesPerSecond)] : []
  await pipeline([backend.stdout, cgiAnswer(answer), ...slowly, answer as Writable]).catch(() => answer.destroy())
  await ended
}

/** Takes the head off a CGI answer and sets it on the real one. */
function cgiAnswer(answer: ServerResponse): Transform {
  let head = Buffer.alloc(0)
  let body = false
  return new Transform({
    transform(chunk: Buffer, _, done) {
      if (body) return done(null, chunk)
      head = Buffer.concat([head, chunk])
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return done()
      body = true
      for (const line of head.subarray(0, end).toString('latin1').split('\r\n')) {
        const [name = '', value = ''] = line.split(/:\s*(.*)/s)
        if (name.toLowerCase() === 'status') answer.statusCode = Number.parseInt(value, 10)
        else answer.setHeader(name, value)
      }
      done(null, head.subarray(end + 4))
    },
  })
}

function throttle(bytesPerSecond: number): Transform {
  return new Transform({
    async transform(chunk: Buffer, _, done) {
      for (let from = 0; from < chunk.length; from += bytesPerSecond / 10) {
        this.push(chunk.subarray(from, from + bytesPerSecond / 10))
        await wait(100)
      }
      done()
    },
  })
}
