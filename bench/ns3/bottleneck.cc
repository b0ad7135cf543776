// The same network and traffic as `fairwater-bench sim`, in ns-3: bulk flows, each from a host of
// its own over a first router, one bottleneck and a second router to a host of its own.
//
// Prints one line of JSON: packet-hops (packets that crossed a link) and CPU seconds, of the run
// without its set-up and of the second half of its virtual time alone, the payload delivered, and
// the bottleneck's drops and mean queue. Counting takes some nanoseconds of the microseconds that a
// hop costs.

#include <ctime>
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

static uint64_t g_hops = 0;
static uint64_t g_hopsAtHalf = 0;
static double g_cpuAtHalf = 0;

static void
Crossed(Ptr<const Packet>)
{
    ++g_hops;
}

static uint64_t g_drops = 0;
static double g_queuedPacketSeconds = 0;
static double g_queueChangedAt = 0;

static void
Dropped(Ptr<const Packet>)
{
    ++g_drops;
}

// The mean over time, from the queue's length before each change.
static void
QueueChanged(uint32_t before, uint32_t)
{
    double now = Simulator::Now().GetSeconds();
    g_queuedPacketSeconds += before * (now - g_queueChangedAt);
    g_queueChangedAt = now;
}

// InternetStackHelper gives each node a traffic control layer, and Ipv4AddressHelper puts an
// FqCoDel root discipline on each device with flow control, which would keep the queue out of the
// device's own drop-tail buffer.
static void
RequireNoDisciplines()
{
    for (uint32_t i = 0; i < NodeList::GetNNodes(); ++i)
    {
        Ptr<Node> node = NodeList::GetNode(i);
        Ptr<TrafficControlLayer> control = node->GetObject<TrafficControlLayer>();
        for (uint32_t d = 0; control && d < node->GetNDevices(); ++d)
        {
            NS_ABORT_MSG_IF(control->GetRootQueueDiscOnDevice(node->GetDevice(d)),
                            "a queue discipline is on device " << d << " of node " << i);
        }
    }
}

static double
CpuSeconds()
{
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void
NoteHalf()
{
    g_hopsAtHalf = g_hops;
    g_cpuAtHalf = CpuSeconds();
}

int
main(int argc, char* argv[])
{
    uint32_t flows = 10;
    std::string access = "10Gbps";
    std::string rate = "1Gbps";
    std::string delay = "10ms";
    uint32_t buffer = 1667;
    double seconds = 10;
    std::string variant = "ns3::TcpCubic";
    CommandLine command(__FILE__);
    command.AddValue("flows", "how many bulk flows", flows);
    command.AddValue("access", "rate of the hosts' links", access);
    command.AddValue("rate", "rate of the bottleneck", rate);
    command.AddValue("delay", "one-way delay of the bottleneck", delay);
    command.AddValue("buffer", "packets that wait at the bottleneck", buffer);
    command.AddValue("seconds", "virtual time", seconds);
    command.AddValue("variant", "congestion control: ns3::TcpCubic, ns3::TcpNewReno", variant);
    command.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(variant)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));

    NodeContainer routers;
    routers.Create(2);
    NodeContainer senders;
    senders.Create(flows);
    NodeContainer receivers;
    receivers.Create(flows);
    InternetStackHelper internet;
    internet.InstallAll();

    // Queues are the devices' own: no queue discipline on top of them.
    PointToPointHelper middle;
    middle.DisableFlowControl();
    middle.SetDeviceAttribute("DataRate", StringValue(rate));
    middle.SetChannelAttribute("Delay", StringValue(delay));
    middle.SetQueue("ns3::DropTailQueue",
                    "MaxSize",
                    QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, buffer)));
    PointToPointHelper edge;
    edge.DisableFlowControl();
    edge.SetDeviceAttribute("DataRate", StringValue(access));
    edge.SetChannelAttribute("Delay", StringValue("0ms"));
    edge.SetQueue("ns3::DropTailQueue",
                  "MaxSize",
                  QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, 1000000)));

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    NetDeviceContainer bottleneck = middle.Install(routers);
    addresses.Assign(bottleneck);
    Ipv4InterfaceContainer sinks;
    for (uint32_t i = 0; i < flows; ++i)
    {
        addresses.NewNetwork();
        addresses.Assign(edge.Install(senders.Get(i), routers.Get(0)));
        addresses.NewNetwork();
        sinks.Add(addresses.Assign(edge.Install(routers.Get(1), receivers.Get(i))).Get(1));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    RequireNoDisciplines();

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
    ApplicationContainer sinkApps = sink.Install(receivers);
    for (uint32_t i = 0; i < flows; ++i)
    {
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(sinks.GetAddress(i), 9));
        bulk.Install(senders.Get(i)).Start(Seconds(0));
    }
    Ptr<Queue<Packet>> queue = DynamicCast<PointToPointNetDevice>(bottleneck.Get(0))->GetQueue();
    queue->TraceConnectWithoutContext("Drop", MakeCallback(&Dropped));
    queue->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&QueueChanged));
    Config::ConnectWithoutContext("/NodeList/*/DeviceList/*/$ns3::PointToPointNetDevice/PhyTxEnd",
                                  MakeCallback(&Crossed));

    Simulator::Schedule(Seconds(seconds / 2), &NoteHalf);
    Simulator::Stop(Seconds(seconds));
    double before = CpuSeconds();
    Simulator::Run();
    double after = CpuSeconds();
    uint64_t delivered = 0;
    for (uint32_t i = 0; i < flows; ++i)
    {
        delivered += DynamicCast<PacketSink>(sinkApps.Get(i))->GetTotalRx();
    }
    std::cout << "{\"hops\":" << g_hops << ",\"cpu_s\":" << after - before
              << ",\"later_hops\":" << g_hops - g_hopsAtHalf
              << ",\"later_cpu_s\":" << after - g_cpuAtHalf << ",\"delivered_bytes\":" << delivered
              << ",\"drops\":" << g_drops
              << ",\"mean_queue_packets\":" << g_queuedPacketSeconds / seconds << "}" << std::endl;
    Simulator::Destroy();
    return 0;
}
