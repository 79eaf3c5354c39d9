import type { IncomingMessage, ServerResponse } from 'node:http'
import test from 'ava'
import { siteverifyCaptcha } from '../../../activities/captcha/siteverify.ts'
import { CodedError } from '../../../policy/errors.ts'
import { captchaContract } from '../../contracts/captcha.ts'
import { CaptchaProviderServer } from '../../kit/servers/captcha-provider.ts'

let provider: CaptchaProviderServer
test.before(async () => {
  provider = await CaptchaProviderServer.start()
})
test.after.always(() => provider?.stop())

captchaContract(test.serial, 'siteverify', () => ({
  captcha: siteverifyCaptcha(provider.settings()),
  solve: how => provider.solve(how),
}))

test.serial('the provider receives the secret, the answer and the address, and nothing else', async t => {
  provider.asked.length = 0
  const answer = provider.solve()
  await siteverifyCaptcha(provider.settings()).solvedAt(answer, '203.0.113.7', AbortSignal.timeout(10_000))
  t.deepEqual(
    provider.asked.map(fields => Object.fromEntries(fields)),
    [{ secret: provider.secretKey, response: answer, remoteip: '203.0.113.7' }],
  )
})

/** Result for a good answer when the provider does this instead of answering. */
async function refusal(
  takeOver: (request: IncomingMessage, response: ServerResponse) => unknown,
  deadline = AbortSignal.timeout(10_000),
): Promise<string> {
  provider.takeOver = (request, response) => {
    request.resume()
    takeOver(request, response)
    return true
  }
  try {
    const at = await siteverifyCaptcha(provider.settings()).solvedAt(provider.solve(), '203.0.113.7', deadline)
    return at === null ? 'none' : 'solved'
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return `${error.code}: ${error.message}`
  } finally {
    provider.takeOver = () => false
  }
}
const says =
  (body: unknown, status = 200) =>
  (_: unknown, response: ServerResponse) =>
    response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body))

test.serial(
  'a provider that is away, busy or silent is distinguished from a wrong answer, and never passes one',
  async t => {
    t.regex(await refusal(request => request.socket.destroy()), /^FAILED_TO_FETCH/)
    for (const status of [500, 503, 429]) t.regex(await refusal(says({ success: true }, status)), /^FAILED_TO_FETCH/)
    const elsewhere = (_: unknown, response: ServerResponse) => response.writeHead(302, { location: '/x' }).end()
    t.regex(await refusal(elsewhere), /^FAILED_TO_FETCH/, 'the secret goes nowhere else')
    const deadline = new AbortController()
    t.regex(await refusal(() => deadline.abort(), deadline.signal), /^VALIDATION_TIMEOUT/)
    const port = await closedPort()
    const away = siteverifyCaptcha({ verifyUrl: `http://127.0.0.1:${port}/`, secretKey: 'x' })
    const error = await t.throwsAsync(away.solvedAt('a', '203.0.113.7', AbortSignal.timeout(10_000)), {
      instanceOf: CodedError,
    })
    t.is((error as CodedError).code, 'FAILED_TO_FETCH')
  },
)

test.serial('an invalid verdict passes nobody, and repeats only published codes', async t => {
  for (const body of ['', 'true', '[]', '<html>', {}, { success: 'true' }, { success: true }, { success: 1 }])
    t.regex(await refusal(says(body)), /^VALIDATION_FAILED/, JSON.stringify(body))
  t.regex(
    await refusal(says(`{"success":true,"challenge_ts":"${new Date().toISOString()}"}${' '.repeat(70_000)}`)),
    /^VALIDATION/,
  )
  t.regex(await refusal(says({ success: true, challenge_ts: 'yesterday' })), /^VALIDATION_FAILED/)
  t.is(
    await refusal(says({ success: false, 'error-codes': ['invalid-input-secret', 'A <script>'] })),
    'VALIDATION_FAILED: The captcha could not be checked (its provider answered: invalid-input-secret). Try again later.',
  )
  t.is(await refusal(says({ success: false })), 'none')
  for (const code of ['timeout-or-duplicate', 'expired-input-response', 'already-seen-response'])
    t.is(await refusal(says({ success: false, 'error-codes': [code] })), 'none')
})

test.serial('a wrong secret is reported as the operator’s error, not the visitor’s', async t => {
  const captcha = siteverifyCaptcha({ ...provider.settings(), secretKey: 'wrong' })
  const error = await t.throwsAsync(captcha.solvedAt(provider.solve(), '203.0.113.7', AbortSignal.timeout(10_000)))
  t.regex(error.message, /invalid-input-secret/)
  t.false(error.message.includes('wrong'))
})

/** A port without a listener. */
async function closedPort(): Promise<number> {
  const other = await CaptchaProviderServer.start()
  await other.stop()
  return Number(new URL(other.url).port)
}
