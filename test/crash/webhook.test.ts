import test from 'ava'
import { webhookSurvives } from '../kit/crash/deploy-crash-kit.ts'
import { cloneUrl, newCommit, webhookOf } from '../kit/git/deliveries.ts'
import { pushEvent } from '../kit/git/git-events.ts'
import { startGitServer } from '../kit/git/git-server.ts'
import { testPlatform } from '../kit/platform/platform.ts'

const git = await startGitServer()
test.after.always('stop the git server', () => git.stop())
const started = testPlatform({ settings: { GIT_ALLOWED_HOSTS: git.host } })

for (const at of [
  { point: 'pushes.store:before', stored: false },
  { point: 'pushes.store:after', stored: true },
  { point: 'pushes.confirm:after', stored: true },
  { point: 'lanes.wake:before', stored: true },
])
  test.serial(`the API dies of a push at ${at.point}: delivered again, it is one deployment`, async t => {
    t.timeout(120_000)
    await webhookSurvives(t, await started, git, at)
  })

for (const point of ['pushes.store:after', 'pushes.confirm:after'])
  test.serial(
    `the API dies at ${point} of pushes that arrived together: delivered again, each is one deployment`,
    async t => {
      t.timeout(120_000)
      const platform = await started
      const { api, db } = platform
      const ana = await api.makeUser({ plan: 'pro-12' })
      const apps = await Promise.all(Array.from({ length: 6 }, () => api.makeApp(ana)))
      const hooks = await Promise.all(apps.map(({ id }) => webhookOf(api, ana, id)))
      const pushes = [...hooks, ...hooks].map((hook, n) => {
        const ref = `refs/heads/b${n % 3}`
        const deliveryId = `${point}-${n}`
        return {
          hook,
          ...pushEvent('github', { cloneUrl, ref, before: 'a'.repeat(40), after: newCommit(), deliveryId }),
        }
      })
      const sendAll = (url: string) =>
        Promise.allSettled(
          pushes.map(async ({ hook, headers, body }) => {
            const answer = await fetch(url + hook, { method: 'POST', headers, body })
            return { status: answer.status, text: await answer.text() }
          }),
        )
      const armed = await platform.startApiProcess({ CRASH_POINT: point })
      t.true((await sendAll(armed.url)).every(({ status }) => status === 'rejected'))
      t.is(await armed.api.ended, 'SIGKILL', armed.api.output().slice(-1000))
      const stored = () => db('deployments').where({ owner_id: ana.id, source: 'git' })
      t.true((await stored()).length > 0)
      const healed = await platform.startApiProcess()
      try {
        const again = await sendAll(healed.url)
        for (const answer of again) t.like(answer, { status: 'fulfilled', value: { status: 200 } })
        t.is((await stored()).length, pushes.length)
        t.is(await db('operations').where({ owner_id: ana.id, state: 'accepting' }).first(), undefined)
      } finally {
        await healed.api.kill('SIGKILL')
      }
    },
  )
