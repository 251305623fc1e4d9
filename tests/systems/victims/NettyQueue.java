// SPDX-License-Identifier: MIT
// Answers a POST with 201 by Netty, the head and the body of the answer in two writes that it flushes apart.
// Usage: java NettyQueue

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultHttpResponse;
import io.netty.handler.codec.http.DefaultLastHttpContent;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;

public final class NettyQueue {
    private static final byte[] STORED = "stored\n".getBytes(StandardCharsets.US_ASCII);

    private NettyQueue() {
    }

    private static final class Store extends SimpleChannelInboundHandler<FullHttpRequest> {
        @Override
        protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
            HttpResponse head =
                new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.CREATED);
            head.headers().set(HttpHeaderNames.CONTENT_LENGTH, STORED.length);
            context.writeAndFlush(head);
            context.writeAndFlush(new DefaultLastHttpContent(Unpooled.wrappedBuffer(STORED)));
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Channel listener = new ServerBootstrap()
            .group(new NioEventLoopGroup(1))
            .channel(NioServerSocketChannel.class)
            .childHandler(new ChannelInitializer<SocketChannel>() {
                @Override
                protected void initChannel(SocketChannel channel) {
                    channel.pipeline().addLast(new HttpServerCodec(),
                        new HttpObjectAggregator(1 << 20), new Store());
                }
            })
            .bind("127.0.0.1", 0).sync().channel();
        System.out.println("listening on port "
            + ((InetSocketAddress) listener.localAddress()).getPort());
        listener.closeFuture().sync();
    }
}
