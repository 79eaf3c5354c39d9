// Serves the page, and mints upload tokens: the API key stays here, the bytes of the files never come here.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const { BLOB_URL, BLOB_API_KEY, PORT = 8000 } = process.env
if (!BLOB_URL || !BLOB_API_KEY) throw new Error('Set BLOB_URL and BLOB_API_KEY, a key with the scope blob:write.')

const files = {
  '/': ['page.html', 'text/html; charset=utf-8'],
  '/page.js': ['page.js', 'text/javascript'],
  '/upload.js': ['upload.js', 'text/javascript'],
}

// What a visitor may do with a token. Whatever the browser asks for, these stand.
const pins = {
  prefix: 'visitors',
  max_size: 2 * 1024 ** 3,
  allowed_extensions: ['gif', 'jpg', 'mp4', 'pdf', 'png', 'txt', 'zip'],
  max_uses: 1,
  expires_in: 3600,
}

// Here is the place to ask who this visitor is, and whether they may upload.
async function mint() {
  const answer = await fetch(`${BLOB_URL}/v1/upload-tokens`, {
    method: 'POST',
    headers: { authorization: BLOB_API_KEY, 'content-type': 'application/json' },
    body: JSON.stringify(pins),
  })
  const { response, message } = await answer.json()
  if (!answer.ok) throw new Error(message)
  return { token: response.token, blobUrl: BLOB_URL }
}

const server = createServer(async (request, response) => {
  const json = (status, body) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  if (request.method === 'POST' && request.url === '/token')
    return mint().then(
      token => json(200, token),
      error => {
        console.error(error.message)
        json(502, { message: 'No upload is possible at the moment.' })
      },
    )
  const [file, type] = files[request.url] ?? []
  if (!file) return response.writeHead(404).end('Not found\n')
  response.writeHead(200, { 'content-type': type }).end(readFileSync(new URL(file, import.meta.url)))
})

server.listen(PORT, () => console.log(`Listening on ${server.address().port}`))

// A stop is a SIGTERM first: let the answers under way finish.
process.on('SIGTERM', () => server.close(() => process.exit(0)))
