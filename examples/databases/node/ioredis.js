import { Redis } from 'ioredis'

const redis = new Redis(process.env.REDIS_URL, {
  tls: { ca: Buffer.from(process.env.REDIS_CERTIFICATE, 'base64').toString() },
})
redis.on('error', error => console.error(error.message)) // it connects again by itself

export const countVisit = () => redis.incr('visits')

export const close = () => redis.quit()
