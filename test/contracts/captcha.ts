import type { SerialFn, TestFn } from 'ava'
import type { Captcha } from '../../activities/captcha/port.ts'

export interface CaptchaEnd {
  captcha: Captcha
  /** An answer of the widget, solved now or at the given time. */
  solve(how?: { at?: Date; address?: string }): string
}

const visitor = '203.0.113.7'

/** The contract of every captcha. */
export function captchaContract(test: TestFn | SerialFn, name: string, end: () => CaptchaEnd): void {
  const ask = (answer: string, address = visitor) =>
    end().captcha.solvedAt(answer, address, AbortSignal.timeout(10_000))

  test(`${name}: an answer that was solved is dated, once`, async t => {
    const at = new Date(Date.now() - 5000)
    const answer = end().solve({ at })
    t.is((await ask(answer))?.getTime(), at.getTime())
    t.is(await ask(answer), null)
  })

  test(`${name}: an answer that nobody solved is invalid`, async t => {
    for (const answer of ['nonsense', '', 'a&success=true', 'é\u0000\n', 'x'.repeat(8000)])
      t.is(await ask(answer), null)
  })

  test(`${name}: an answer that was solved at another address is invalid`, async t => {
    t.is(await ask(end().solve({ address: '203.0.113.8' })), null)
    t.truthy(await ask(end().solve({ address: visitor })))
    t.truthy(await ask(end().solve({ address: '2001:db8::1' }), '2001:db8::1'))
  })

  test(`${name}: concurrent answers do not mix`, async t => {
    const answers = Array.from({ length: 20 }, (_, n) => (n % 2 ? end().solve() : `none-${n}`))
    const dated = await Promise.all(answers.map(answer => ask(answer)))
    t.deepEqual(
      dated.map(at => at !== null),
      answers.map((_, n) => n % 2 === 1),
    )
  })
}
