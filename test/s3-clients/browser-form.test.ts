import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { GetObjectCommand } from '@aws-sdk/client-s3'
import { createPresignedPost } from '@aws-sdk/s3-presigned-post'
import test, { type ExecutionContext } from 'ava'
import { testBrowser } from '../kit/actors/browser.ts'
import { hex, noise } from '../kit/bodies.ts'
import { ownFolder } from '../kit/folders.ts'
import { bucket, testGateway, wires } from '../kit/s3/gateway.ts'
import { sdkClient } from '../kit/s3/sdk-client.ts'
import { startOrigin } from '../kit/servers/origin.ts'

const { access } = testGateway()
const browser = testBrowser()

/** A page of another origin with a form for a file, and the page that it redirects to, which shows its own address. */
async function startPage(t: ExecutionContext, form: () => { url: string; fields: Record<string, string> }) {
  const origin = await startOrigin((request, answer) => {
    answer.setHeader('content-type', 'text/html; charset=utf-8')
    if (request.url !== '/') return void answer.end(`<p>Stored: ${request.url?.replaceAll('&', '&amp;')}</p>`)
    const { url, fields } = form()
    const hidden = Object.entries(fields).map(
      ([name, value]) => `<input type="hidden" name="${name}" value="${value}">`,
    )
    const file = '<input type="file" name="file"><button>Send</button>'
    answer.end(`<form action="${url}" method="post" enctype="multipart/form-data">${hidden.join('')}${file}</form>`)
  })
  t.teardown(origin.stop)
  return `http://127.0.0.1:${origin.port}/`
}

for (const wire of wires)
  test.serial(
    `${wire}: a form on a page of another origin stores a file, and the browser is redirected as it says`,
    async t => {
      const s3 = sdkClient(t, await access(wire))
      let form = { url: '', fields: {} as Record<string, string> }
      const page = await startPage(t, () => form)
      form = await createPresignedPost(s3, {
        Bucket: bucket,
        Key: `${wire}/forms/\${filename}`,
        Conditions: [['content-length-range', 1, 300_000]],
        Fields: { success_action_redirect: `${page}done?for=you`, 'Content-Type': 'image/png' },
        Expires: 60,
      })
      const name = 'photo of mé.png'
      const path = join(ownFolder(t), name)
      const bytes = noise(200_000)
      writeFileSync(path, bytes)
      const visitor = await browser().visit(page)
      // The browser does not trust the authority of the tests.
      await (await visitor.page.createCDPSession()).send('Security.setIgnoreCertificateErrors', { ignore: true })
      const send = async () => {
        const [chooser] = await Promise.all([visitor.page.waitForFileChooser(), visitor.page.click('input[type=file]')])
        await chooser.accept([path])
        await visitor.page.click('button')
      }
      await send()
      const shown = await visitor.reads('Stored: ')
      const at = new URL(shown.slice('Stored: '.length).trim(), page)
      const etag = `"${hex('md5', bytes)}"`
      t.deepEqual(Object.fromEntries(at.searchParams), { for: 'you', bucket, key: `${wire}/forms/${name}`, etag })
      const got = await s3.send(new GetObjectCommand({ Bucket: bucket, Key: `${wire}/forms/${name}` }))
      t.is(got.ContentType, 'image/png')
      t.is(hex('md5', Buffer.from(await got.Body!.transformToByteArray())), hex('md5', bytes))
      // What the policy does not allow is refused, and the browser shows why.
      writeFileSync(path, noise(300_001))
      await visitor.page.goto(page)
      await send()
      await visitor.reads('EntityTooLarge')
    },
  )
