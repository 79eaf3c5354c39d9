import type { ServerResponse } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { searxngSearch } from '../../../activities/web-search/searxng.ts'
import { startOrigin } from '../../kit/servers/origin.ts'

async function scene(t: ExecutionContext, answer: (response: ServerResponse) => void) {
  const asked: string[] = []
  const origin = await startOrigin((request, response) => {
    asked.push(request.url ?? '')
    answer(response)
  })
  t.teardown(origin.stop)
  const web = searxngSearch(`http://127.0.0.1:${origin.port}/searx`)
  return { asked, search: (query: string, signal = AbortSignal.timeout(30_000)) => web.search(query, signal) }
}

const says =
  (answer: unknown, status = 200) =>
  (response: ServerResponse) =>
    void response.writeHead(status).end(typeof answer === 'string' ? answer : JSON.stringify(answer))

test('a search is one request, and its results have a title, an address and an excerpt', async t => {
  const { search, asked } = await scene(
    t,
    says({
      query: 'x',
      results: [
        { title: 'Porto', url: 'https://example.com/porto', content: 'A city.', engine: 'a', score: 1 },
        { title: null, url: 'https://example.com/', content: 5 },
        { title: 'no address', content: 'x' },
      ],
    }),
  )
  t.deepEqual(await search('porto & são/?'), [
    { title: 'Porto', url: 'https://example.com/porto', excerpt: 'A city.' },
    { title: '', url: 'https://example.com/', excerpt: '' },
  ])
  t.deepEqual(asked, ['/searx/search?q=porto+%26+s%C3%A3o%2F%3F&format=json'])
})

test('a search that fails says why, and does not repeat the query', async t => {
  for (const [answer, why] of [
    [says('<html>', 403), /answered 403/],
    [says('<html>'), /format json/],
    [says({}), /format json/],
    [says({ results: [{ url: 'https://example.com/', content: 'x'.repeat(3 << 20) }] }), /form/],
    [(response: ServerResponse) => void response.writeHead(302, { location: '/x' }).end(), /did not answer/],
    [(response: ServerResponse) => void response.destroy(), /did not answer/],
  ] as const) {
    const { search } = await scene(t, answer)
    const { message } = await t.throwsAsync(search('secret'))
    t.regex(message, why)
    t.notRegex(message, /secret/)
  }
  const { search } = await scene(t, () => {})
  await t.throwsAsync(search('secret', AbortSignal.timeout(50)))
})
