// A web application without dependencies. The platform says in PORT where it is expected to listen.
const { createServer } = require('node:http')
const { readFileSync } = require('node:fs')

const page = readFileSync(`${__dirname}/page.html`, 'utf8')
const startedAt = Date.now()
let visits = 0

const server = createServer((request, response) => {
  if (request.url === '/health') return response.end('ok\n')
  const facts = {
    visits: ++visits,
    uptime: `${Math.round((Date.now() - startedAt) / 1000)} s`,
    node: process.version,
    memory: `${Math.round(process.memoryUsage.rss() / 1e6)} MB`,
  }
  if (request.url === '/api') {
    response.setHeader('content-type', 'application/json')
    return response.end(`${JSON.stringify(facts)}\n`)
  }
  response.setHeader('content-type', 'text/html; charset=utf-8')
  response.end(page.replace(/{(\w+)}/g, (_, name) => facts[name] ?? ''))
})

server.listen(process.env.PORT ?? 8000, () => console.log(`Listening on ${server.address().port}`))

// A stop is a SIGTERM first: let the answers under way finish.
process.on('SIGTERM', () => server.close(() => process.exit(0)))
