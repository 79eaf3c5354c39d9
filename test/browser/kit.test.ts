import test from 'ava'
import { testBrowser } from '../kit/actors/browser.ts'
import { startOrigin } from '../kit/servers/origin.ts'

const browser = testBrowser()

test.serial('a visitor sees a page in their language, and knows nothing of another visitor', async t => {
  const origin = await startOrigin((request, answer) => {
    answer.setHeader('content-type', 'text/html')
    answer.setHeader('set-cookie', 'seen=1')
    answer.end(`<p>${request.headers['accept-language']} ${request.headers.cookie ?? 'no cookie'}</p>`)
  })
  t.teardown(origin.stop)
  const url = `http://127.0.0.1:${origin.port}/`
  const first = await browser().visit(url, { language: 'pt-BR' })
  t.regex(await first.reads('no cookie'), /^pt-BR/)
  t.is(await first.page.evaluate('navigator.language'), 'pt-BR')
  await first.page.reload()
  await first.reads('seen=1')
  await (await browser().visit(url)).reads(/^en-US.* no cookie$/)
})

test.serial('complaints are reported: of scripts, of policies, and of what is not on this machine', async t => {
  const origin = await startOrigin((request, answer) => {
    if (request.url !== '/') return answer.writeHead(404).end()
    answer.setHeader('content-type', 'text/html')
    answer.setHeader('content-security-policy', "script-src 'sha256-gK3QrV2Lg8xSZnJqYHqE0M5nHhb4H0nS1b6Sx3H3B4E='")
    answer.end('<script>1</script><p>here</p>')
  })
  t.teardown(origin.stop)
  const url = `http://127.0.0.1:${origin.port}/`
  const { page, complaints } = await browser().visit(url)
  t.regex(complaints.join(), /Content Security Policy/)
  complaints.length = 0
  t.is(await page.evaluate(`fetch('/missing').then(answer => answer.status)`), 404)
  t.deepEqual(complaints, [], 'an answer is no complaint')
  t.is(await page.evaluate(`fetch('http://example.org/').catch(error => error.name)`), 'TypeError')
  t.regex(complaints.join(), /ERR_NAME_NOT_RESOLVED/)
})
