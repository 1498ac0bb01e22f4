// NestJS on Express, limited to 10 requests in any 10 seconds for each client, with state in this process. A login has
// a limit of its own. Decorators need "experimentalDecorators" in tsconfig.json.
//
//   node --import tsx examples/nest.ts
import { Controller, Get, Module, Post, Req } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import type { Request } from 'express'
import { RateLimit, RateLimitGuard, RateLimitModule } from 'spillway/nest'

@Controller()
class Greetings {
  @Get()
  hello(@Req() req: Request): string {
    return `hello, ${req.rateLimit?.remaining} left\n`
  }

  @Post('login')
  @RateLimit('3/1m')
  logIn(): string {
    return 'logged in\n'
  }
}

@Module({
  imports: [RateLimitModule.forRoot({ policy: '10/10s' })],
  controllers: [Greetings],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false })
await app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1')
const url = `${await app.getUrl()}/`
console.log(`Listening on ${url}`)
console.log(`Try:  for i in $(seq 12); do curl -s -i ${url} | head -1; done`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => app.close())
